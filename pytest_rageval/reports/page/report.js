"use strict";

// Filters, search, sort, links to questions, and prompts on demand. Texts are only ever set as text.
(() => {
  const form = document.getElementById("filters");
  if (!form) return;
  const count = form.querySelector("output");
  const groups = [...document.querySelectorAll(".group")].map((section) => ({
    section,
    heading: section.querySelector("h3"),
    list: section.querySelector(".list"),
    questions: [...section.querySelectorAll(".q")].map((element) => ({
      element,
      tokens: new Set(element.dataset.f.split(" ")),
      text: null,
    })),
  }));
  const total = groups.reduce((sum, group) => sum + group.questions.length, 0);
  let sorted = "";

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
    if (by === sorted) return;
    sorted = by;
    for (const group of groups) {
      // The list stays as it was written: the worst first.
      const questions = [...group.questions];
      if (by === "id") for (const each of questions) each.id ??= idOf(each.element);
      if (by) questions.sort(orders[by]);
      const moved = document.createDocumentFragment();
      for (const each of questions) moved.append(each.element);
      group.list.append(moved);
    }
  }

  function show() {
    const wanted = chosen();
    sort(wanted.sort);
    const counts = new Map();
    let shown = 0;
    for (const group of groups) {
      const isWanted = !wanted.test || group.heading.id === wanted.test;
      let here = 0;
      for (const question of group.questions) {
        const fits =
          isWanted &&
          wanted.tokens.every((token) => question.tokens.has(token)) &&
          wanted.words.every((word) => textOf(question).includes(word));
        if (fits) for (const token of ["", ...question.tokens]) counts.set(token, (counts.get(token) ?? 0) + 1);
        const visible = fits && (!wanted.state || question.tokens.has(wanted.state));
        here += visible;
        question.element.hidden = !visible;
      }
      group.section.hidden = !here;
      shown += here;
    }
    for (const each of form.querySelectorAll("[data-count]")) {
      const found = counts.get(each.dataset.count) ?? 0;
      each.textContent = found.toLocaleString("en");
      const radio = each.closest("label").querySelector("input");
      each.closest("label").hidden = !found && !radio.checked;
    }
    count.textContent = `${shown.toLocaleString("en")} of ${total.toLocaleString("en")} questions`;
  }

  let waiting = 0;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", show);
  form.addEventListener("input", (event) => {
    if (event.target.name !== "text") return;
    clearTimeout(waiting);
    waiting = setTimeout(show, 120);
  });
  form.addEventListener("reset", () => setTimeout(show));

  // A link to a question opens it, also where a filter has hidden it.
  function open() {
    const body = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const question = body?.closest(".q");
    if (!question) return;
    if (question.hidden) {
      form.reset();
      show();
    }
    question.open = true;
    question.querySelector("summary").focus({ preventScroll: true });
    question.scrollIntoView({ block: "start" });
  }
  addEventListener("hashchange", open);

  // The prompts of a question: the templates of its test, filled with its texts.
  const bullets = (texts) => texts.map((text) => `- ${text}`).join("\n");
  const fence = (name, text) => `<${name} {mark}>\n${text}\n</${name} {mark}>`;
  const line = (text) => text.trim().replace(/\s+/g, " ");

  function placesOf(body) {
    const field = (name) =>
      [...body.querySelectorAll("dt")]
        .filter((term) => term.firstChild.textContent.trim() === name)
        .map((term) => term.nextElementSibling.textContent);
    const passages = body.querySelector(".passages");
    const k = Number(passages.dataset.k ?? Infinity);
    const texts = [...passages.querySelectorAll("blockquote")].slice(0, k).map((each) => line(each.textContent));
    const listed = texts.map((text, at) => `[${at + 1}] ${text}`).join("\n") || "(none)";
    const places = {
      question: body.closest(".q").querySelector("summary > span").textContent,
      passages: fence("passages", listed),
    };
    const answer = field("answer");
    const references = field("reference").flatMap((text) => text.split(" | "));
    if (answer.length) places.answer = fence("answer", answer[0]);
    if (references.length) places.references = fence("references", bullets(references));
    return places;
  }

  function addPrompts(body) {
    const heading = body.closest(".group").querySelector("h3").id;
    const test = document.getElementById(heading.replace(/-questions$/, ""));
    const templates = [...test.querySelectorAll("[data-prompt]")];
    if (!templates.length || !body.querySelector("blockquote") || body.querySelector(".asked")) return;
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
        const places = placesOf(body);
        const filled = document.createElement("div");
        filled.className = "filled";
        for (const template of templates) {
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
