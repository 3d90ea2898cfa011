"use strict";

// The page of `rageval view`: a report that was written again, the tests of a run that goes on, the runs before it, and
// buttons that label an answer. Texts are only set as text, never as markup.
(() => {
  const INTERVAL = 2000;
  const verdictsOf = ["right", "wrong", "unclear"];
  let state = null;

  const make = (tag, text = "", name = "") => {
    const element = document.createElement(tag);
    element.textContent = text;
    if (name) element.className = name;
    return element;
  };

  const plural = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

  const bar = make("section", "", "served");
  bar.setAttribute("aria-label", "This run and the runs before it");
  const running = make("p", "", "warning");
  running.setAttribute("role", "status");
  running.hidden = true;
  const runs = make("details");
  const count = make("p", "", "muted");
  bar.append(running, runs, count);
  document.getElementById("main").prepend(bar);

  function showRunning() {
    const failed = state.running.filter((each) => each.failed);
    running.hidden = !state.running.length;
    const last = state.running.at(-1);
    const failures = failed.map((each) => `${each.test}: ${each.failed}`).join("; ");
    running.textContent = last
      ? `A run goes on: ${plural(state.running.length, "test")} done, ${failed.length} failed. ${failures || last.test}`
      : "";
  }

  function showRuns() {
    runs.hidden = !state.all_runs;
    if (!state.all_runs || runs.dataset.of === String(state.all_runs)) return;
    runs.dataset.of = String(state.all_runs);
    const names = [...new Set(state.runs.flatMap((run) => Object.keys(run.scores)))];
    const table = make("table");
    const head = make("tr");
    for (const name of ["Run", "Time", "Failed tests", ...names]) {
      const cell = make("th", name);
      cell.scope = "col";
      head.append(cell);
    }
    const body = make("tbody");
    for (const run of state.runs) {
      const row = make("tr");
      const name = make("th", `${run.name} ${run.title}`);
      name.scope = "row";
      const scores = names.map((score) => make("td", run.scores[score]?.toFixed(3) ?? "-", "number"));
      row.append(name, make("td", run.time), make("td", String(run.failed), "number"), ...scores);
      body.append(row);
    }
    const thead = make("thead");
    thead.append(head);
    table.append(thead, body);
    const frame = make("div", "", "wide");
    frame.tabIndex = 0;
    frame.setAttribute("role", "region");
    frame.setAttribute("aria-label", "Runs of the history");
    frame.append(table);
    const link = make("a", `Charts of all ${state.all_runs} runs`);
    link.href = "history";
    runs.replaceChildren(make("summary", `Runs before: ${state.all_runs} in the history`), frame, link);
  }

  function showCount() {
    const labelled = state.answers.filter((each) => state.verdicts[each.key]).length;
    count.textContent = state.answers.length
      ? `${labelled} of ${state.answers.length} answers labelled. Open a question to label its answer.`
      : "";
  }

  // The answers of an open question get their buttons once.
  function addButtons(question) {
    const id = question.querySelector("summary > code").textContent;
    for (const term of question.querySelectorAll("dt")) {
      const text = term.nextElementSibling;
      if (term.firstChild.textContent.trim() !== "answer" || term.dataset.labelled) continue;
      const shown = text.textContent;
      const answer = state.answers.find((each) => each.id === id && each.answer.trim() === shown.trim());
      if (!answer) continue;
      const group = make("span", "", "label");
      group.setAttribute("role", "group");
      group.setAttribute("aria-label", `Label of the answer to ${id}`);
      for (const verdict of verdictsOf) {
        const button = make("button", verdict);
        button.type = "button";
        button.dataset.verdict = verdict;
        button.addEventListener("click", () => label(answer.key, verdict, group));
        group.append(" ", button);
      }
      term.dataset.labelled = "yes";
      const place = make("dd");
      place.append(group);
      text.after(make("dt", "your label"), place);
      press(answer.key, group);
    }
  }

  function press(key, group) {
    for (const button of group.querySelectorAll("button"))
      button.setAttribute("aria-pressed", String(state.verdicts[key] === button.dataset.verdict));
  }

  async function label(key, verdict, group) {
    const body = JSON.stringify({ key, verdict });
    const response = await fetch("labels", { method: "POST", headers: { "Content-Type": "application/json" }, body });
    const answer = await response.json();
    if (!response.ok) {
      running.hidden = false;
      running.textContent = answer.error;
      return;
    }
    state.verdicts = answer.verdicts;
    press(key, group);
    showCount();
  }

  document.addEventListener(
    "toggle",
    (event) => {
      if (state && event.target.classList.contains("q") && event.target.open) addButtons(event.target);
    },
    true,
  );

  async function refresh() {
    try {
      const response = await fetch("state");
      const next = await response.json();
      if (!response.ok) throw new Error(next.error);
      if (state && next.version !== state.version) {
        location.reload();
        return;
      }
      const isFirst = !state;
      state = next;
      showRunning();
      showRuns();
      showCount();
      if (isFirst) for (const question of document.querySelectorAll(".q[open]")) addButtons(question);
    } catch (error) {
      running.hidden = false;
      running.textContent = `rageval view does not answer: ${error.message}`;
    }
    setTimeout(refresh, INTERVAL);
  }
  refresh();
})();
