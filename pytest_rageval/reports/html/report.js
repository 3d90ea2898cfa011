"use strict";

// Filters, search, sorting, links to questions, and prompts on demand. Texts are only set as text, never as markup.
(() => {
  const form = document.getElementById("filters");
  if (!form) return;
  const count = form.querySelector("output");
  // The page contains only the beginning of a long list, so that it is read at a glance, and filters and sorting stay
  // fast. The other questions are stored here.
  const PORTION = 250;
  const several = document.querySelectorAll(".group").length > 1;
  const FIRST = several ? 5 : 40;
  const groups = [...document.querySelectorAll(".group")].map((section) => {
    const list = section.querySelector(".list");
    const more = document.createElement("button");
    more.type = "button";
    more.className = "more";
    section.append(more);
    const group = {
      table: section.closest(".table"),
      questions: [...list.querySelectorAll(".q")].map((element) => ({
        element,
        tokens: new Set(element.dataset.f.split(" ")),
        text: null,
      })),
      section,
      list,
      more,
      limit: FIRST,
    };
    group.sorted = group.questions;
    more.addEventListener("click", () => {
      const last = list.lastElementChild;
      group.limit += PORTION;
      show();
      last?.nextElementSibling?.querySelector("summary").focus();
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
      evalset: data.get("evalset") ?? "",
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
    for (const table of document.querySelectorAll(".table")) table.hidden = true;
    for (const group of groups) {
      const isWanted = !wanted.evalset || group.table.id === wanted.evalset;
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
      group.list.replaceChildren(...fitting.slice(0, group.limit));
      group.section.hidden = !fitting.length;
      if (fitting.length) group.table.hidden = false;
      group.more.hidden = rest <= 0;
      group.more.textContent = rest > PORTION ? `Show ${PORTION} of ${withCommas(rest)} more` : rest > 0 ? `Show ${rest} more` : "";
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
    const { state, tokens, words } = chosen();
    const isFiltered = state || tokens.length || words.length;
    for (const group of groups) group.limit = isFiltered ? PORTION : FIRST;
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
  function placesOf(variant, isNumbered) {
    const field = (name) =>
      [...variant.querySelectorAll("dt")]
        .filter((term) => term.firstChild.textContent.trim() === name)
        .map((term) => term.nextElementSibling.textContent);
    const passages = variant.querySelector(".passages");
    const k = Number(passages.dataset.k ?? Infinity);
    const texts = [...passages.querySelectorAll(".passage")].slice(0, k).map((each) => line(each.textContent));
    const listed = isNumbered ? texts.map((text, at) => `[${at + 1}] ${text}`).join("\n") : bullets(texts);
    const places = {
      question: variant.closest(".q").querySelector("summary > span").textContent,
      passages: listed || "(none)",
    };
    const answer = field("answer");
    const references = field("reference").flatMap((text) => text.split(" | "));
    if (answer.length) places.answer = answer[0];
    if (references.length) places.references = bullets(references);
    return places;
  }

  function addPrompts(variant) {
    const tests = variant.dataset.tests.split(" ").map((id) => document.getElementById(id));
    const templates = tests.flatMap((test) => [...test.querySelectorAll("[data-prompt]")]);
    if (!templates.length || !variant.querySelector(".passages") || variant.querySelector(".asked")) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "asked";
    button.textContent = "Show the prompts";
    button.setAttribute("aria-expanded", "false");
    button.addEventListener("click", () => {
      const known = variant.querySelector(".filled");
      if (known) {
        known.hidden = !known.hidden;
      } else {
        const filled = document.createElement("div");
        filled.className = "filled";
        for (const template of templates) {
          // Only prompts to chat models have `{mark}` lines around quoted texts.
          const places = placesOf(variant, template.textContent.includes("{mark}"));
          const name = document.createElement("h4");
          name.textContent = template.dataset.prompt;
          const text = document.createElement("pre");
          text.textContent = template.textContent.replace(/\{(\w+)\}/g, (place, key) => places[key] ?? place);
          filled.append(name, text);
        }
        variant.append(filled);
      }
      button.setAttribute("aria-expanded", String(!variant.querySelector(".filled").hidden));
    });
    variant.append(button);
  }
  document.addEventListener(
    "toggle",
    (event) => {
      if (event.target.classList.contains("q") && event.target.open)
        for (const variant of event.target.querySelectorAll(".variant")) addPrompts(variant);
    },
    true,
  );

  // In a plot the arrow keys move between the marks, so that the tab key reaches each plot once.
  for (const plot of document.querySelectorAll(".plot svg")) {
    const marks = [...plot.querySelectorAll(".mark")];
    plot.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      const at = marks.indexOf(document.activeElement);
      if (!step || at < 0) return;
      event.preventDefault();
      const next = marks[(at + step + marks.length) % marks.length];
      marks[at].setAttribute("tabindex", "-1");
      next.setAttribute("tabindex", "0");
      next.focus();
    });
  }

  // A link to a folded test opens it.
  function openTest() {
    const test = document.getElementById(location.hash.slice(1));
    if (test?.classList.contains("test")) test.open = true;
  }
  addEventListener("hashchange", openTest);
  openTest();

  form.hidden = false;
  show();
  open();
})();
