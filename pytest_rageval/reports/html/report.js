"use strict";

// Filters, search, sorting, links to questions, and prompts on demand. Texts are only set as text, never as markup.
(() => {
  const form = document.getElementById("filters");
  if (!form) return;
  const count = form.querySelector("output");
  // The page contains only the beginning of a long list, so that filters and sorting stay fast. The other questions are
  // stored here.
  const PORTION = 250;
  const groups = [...document.querySelectorAll(".group")].map((section) => {
    const list = section.querySelector(".list");
    const more = document.createElement("button");
    more.type = "button";
    more.className = "more";
    section.append(more);
    const group = {
      heading: section.querySelector("h3").id,
      names: [...list.querySelectorAll(".names")],
      questions: [...list.querySelectorAll(".q")].map((element) => ({
        element,
        tokens: new Set(element.dataset.f.split(" ")),
        text: null,
      })),
      section,
      list,
      more,
      limit: PORTION,
    };
    group.sorted = group.questions;
    more.addEventListener("click", () => {
      const last = list.lastElementChild;
      group.limit += PORTION;
      show();
      last.nextElementSibling?.querySelector("summary").focus();
    });
    return group;
  });
  const total = groups.reduce((sum, group) => sum + group.questions.length, 0);
  const withCommas = (value) => value.toLocaleString("en");
  let sortedBy = "";

  const textOf = (question) => (question.text ??= question.element.textContent.toLowerCase());

  const chosen = () => {
    const data = new FormData(form);
    const names = ["case", "by", "tag"];
    return {
      state: data.get("state") ?? "",
      tokens: names.map((name) => data.get(name)).filter(Boolean),
      words: data.get("text").toLowerCase().split(/\s+/).filter(Boolean),
      test: data.get("test") ?? "",
      sort: data.get("sort"),
    };
  };

  const number = (text, missing) => (text === undefined ? missing : Number(text));
  const idOf = (element) => element.querySelector("summary code").textContent;
  const collator = new Intl.Collator(undefined, { numeric: true });
  const orders = {
    gained: (a, b) => b.tokens.has("gained") - a.tokens.has("gained"),
    score: (a, b) => number(a.element.dataset.s, Infinity) - number(b.element.dataset.s, Infinity),
    place: (a, b) => a.element.dataset.n - b.element.dataset.n,
    id: (a, b) => collator.compare(a.id, b.id),
  };

  function sort(by) {
    if (by === sortedBy) return;
    sortedBy = by;
    for (const group of groups) {
      if (by === "id") for (const each of group.questions) each.id ??= idOf(each.element);
      // In the file the worst questions are first.
      group.sorted = by ? [...group.questions].sort(orders[by]) : group.questions;
    }
  }

  function show() {
    const wanted = chosen();
    sort(wanted.sort);
    const counts = new Map();
    let shown = 0;
    for (const group of groups) {
      const isWanted = !wanted.test || group.heading === wanted.test;
      const fitting = [];
      for (const question of isWanted ? group.sorted : []) {
        const fits =
          wanted.tokens.every((token) => question.tokens.has(token)) &&
          wanted.words.every((word) => textOf(question).includes(word));
        if (!fits) continue;
        for (const token of ["", ...question.tokens]) counts.set(token, (counts.get(token) ?? 0) + 1);
        if (!wanted.state || question.tokens.has(wanted.state)) fitting.push(question.element);
      }
      const rest = fitting.length - group.limit;
      group.list.replaceChildren(...group.names, ...fitting.slice(0, group.limit));
      group.section.hidden = !fitting.length;
      group.more.hidden = rest <= 0;
      group.more.textContent = `Show ${Math.min(rest, PORTION)} more of ${withCommas(rest)}`;
      shown += fitting.length;
    }
    for (const each of form.querySelectorAll("[data-count]")) {
      const found = counts.get(each.dataset.count) ?? 0;
      const label = each.closest("label");
      each.textContent = withCommas(found);
      label.hidden = !found && !label.querySelector("input").checked;
    }
    count.textContent = `${withCommas(shown)} of ${withCommas(total)} questions`;
  }

  // After a change of the filters, each list is shown from its beginning.
  function choose() {
    for (const group of groups) group.limit = PORTION;
    show();
  }

  let waiting = 0;
  form.addEventListener("submit", (event) => event.preventDefault());
  // The search field fires `change` when it loses the focus, for example by a click into the list. The list must not
  // move then.
  form.addEventListener("change", (event) => event.target.name === "text" || choose());
  form.addEventListener("input", (event) => {
    if (event.target.name !== "text") return;
    clearTimeout(waiting);
    waiting = setTimeout(choose, 120);
  });
  let isOpening = false;
  form.addEventListener("reset", () => {
    // The fields of the form are reset after this event.
    if (!isOpening) setTimeout(choose);
  });

  // A link to a question opens the question, even if a filter or the length of the list hides it.
  const bodies = new Map(
    groups.flatMap((group) =>
      group.questions.map((question, at) => [question.element.lastElementChild.id, { group, at, ...question }]),
    ),
  );
  function open() {
    const found = bodies.get(location.hash.slice(1));
    if (!found) return;
    const { element, group, at } = found;
    if (!element.isConnected) {
      isOpening = true;
      form.reset();
      isOpening = false;
      group.limit = Math.max(group.limit, at + 1);
      show();
    }
    element.open = true;
    element.querySelector("summary").focus({ preventScroll: true });
    element.scrollIntoView({ block: "start" });
  }
  addEventListener("hashchange", open);

  // The prompts of a question are the prompt templates of its test, filled with the texts of the question.
  const bullets = (texts) => texts.map((text) => `- ${text}`).join("\n");
  const line = (text) => text.trim().replace(/\s+/g, " ");

  // Prompts to chat models have numbered passages. Prompts to base models have a list with dashes.
  function placesOf(body, isNumbered) {
    const field = (name) =>
      [...body.querySelectorAll("dt")]
        .filter((term) => term.firstChild.textContent.trim() === name)
        .map((term) => term.nextElementSibling.textContent);
    const passages = body.querySelector(".passages");
    const k = Number(passages.dataset.k ?? Infinity);
    const texts = [...passages.querySelectorAll(".passage")].slice(0, k).map((each) => line(each.textContent));
    const listed = isNumbered ? texts.map((text, at) => `[${at + 1}] ${text}`).join("\n") : bullets(texts);
    const places = {
      question: body.closest(".q").querySelector("summary > span").textContent,
      passages: listed || "(none)",
    };
    const answer = field("answer");
    const references = field("reference").flatMap((text) => text.split(" | "));
    if (answer.length) places.answer = answer[0];
    if (references.length) places.references = bullets(references);
    return places;
  }

  function addPrompts(body) {
    const heading = body.closest(".group").querySelector("h3").id;
    const test = document.getElementById(heading.replace(/-questions$/, ""));
    const templates = [...test.querySelectorAll("[data-prompt]")];
    if (!templates.length || !body.querySelector(".passages") || body.querySelector(".asked")) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "asked";
    button.textContent = "Show the prompts";
    button.setAttribute("aria-expanded", "false");
    button.addEventListener("click", () => {
      const known = body.querySelector(".filled");
      if (known) {
        known.hidden = !known.hidden;
      } else {
        const filled = document.createElement("div");
        filled.className = "filled";
        for (const template of templates) {
          // Only prompts to chat models have `{mark}` lines around quoted texts.
          const places = placesOf(body, template.textContent.includes("{mark}"));
          const name = document.createElement("h4");
          name.textContent = template.dataset.prompt;
          const text = document.createElement("pre");
          text.textContent = template.textContent.replace(/\{(\w+)\}/g, (place, key) => places[key] ?? place);
          filled.append(name, text);
        }
        body.append(filled);
      }
      button.setAttribute("aria-expanded", String(!body.querySelector(".filled").hidden));
    });
    body.append(button);
  }
  document.addEventListener(
    "toggle",
    (event) => {
      if (event.target.classList.contains("q") && event.target.open) addPrompts(event.target.querySelector(".body"));
    },
    true,
  );

  form.hidden = false;
  show();
  open();
})();
