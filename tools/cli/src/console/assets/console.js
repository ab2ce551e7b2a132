// Keeps what moves up to date while somebody looks: arrivals, and the progress of an order. Everything works without it.
"use strict";

// Changes a part of the page, and gives the focus to the control that is where the focused one was.
const keepingFocus = (selector, change) => {
  const controls = () => [...document.querySelectorAll(`${selector} :is(a, button)`)];
  const place = controls().indexOf(document.activeElement);
  change();
  controls()[place]?.focus({ preventScroll: true });
};

const poll = async () => {
  const part = document.querySelector("[data-poll]");
  if (!part) return;
  const answer = document.hidden ? null : await fetch(part.dataset.poll).catch(() => ({ ok: false }));
  if (answer && !answer.ok) {
    if (!part.dataset.silent) {
      const said = document.createElement("p");
      said.className = "fault";
      said.textContent = "The console does not answer, so the order may have stopped in the middle. " +
        "If the console was ended, start it again, and open the address that it prints.";
      part.prepend(said);
    }
    part.dataset.silent = "yes";
  } else if (answer) {
    const holder = document.createElement("div");
    holder.innerHTML = await answer.text();
    keepingFocus("[data-poll]", () => part.replaceWith(...holder.children));
  }
  setTimeout(poll, answer && !answer.ok ? 5000 : 500);
};
poll();

const table = document.getElementById("arrivals");

if (table) {
  const ROWS_MAX = 20, PAUSE_MS = 1000, NEEDS_MS = 5000;
  const body = table.tBodies[0], pause = document.getElementById("pause"), needs = document.getElementById("needs");
  const looks = () => !document.hidden && pause.getAttribute("aria-pressed") === "false";
  const live = document.getElementById("live"), words = live.firstChild.textContent;
  let next = table.dataset.next, timer, asking = false, changedAt = null;

  const put = (row) => {
    const known = [...body.rows].find((old) => row.dataset.row && old.dataset.row === row.dataset.row);
    const at = (row) => row.querySelector("time").dateTime;
    if (known) known.replaceWith(row); else body.insertBefore(row, [...body.rows].find((old) => at(old) <= at(row)) ?? null);
    row.classList.add("new");
    while (body.rows.length > ROWS_MAX) body.lastElementChild.remove();
  };

  const look = async () => {
    clearTimeout(timer);
    if (asking || !looks()) return;
    let wait = PAUSE_MS;
    asking = true;
    try {
      const answer = await fetch(`arrivals?after=${next}`);
      if (!answer.ok) throw new Error(answer.status);
      const holder = document.createElement("tbody");
      holder.innerHTML = await answer.text();
      const rows = [...holder.rows];
      rows.forEach(put);
      next = answer.headers.get("x-next");
      if (rows.length) document.getElementById("nothing")?.remove();
      if (rows.length) changedAt ??= Date.now();
      // For so long the console answers all pages with what it read for one.
      if (changedAt !== null && Date.now() - changedAt > NEEDS_MS) {
        changedAt = null;
        const section = await fetch("needs");
        const cards = section.ok ? await section.text() : null;
        if (cards !== null) keepingFocus("#needs", () => { needs.innerHTML = cards; });
      }
      live.firstChild.textContent = words;
    } catch {
      live.firstChild.textContent = "the console does not answer: start it again · ";
      wait = 10 * PAUSE_MS;
    }
    asking = false;
    timer = setTimeout(look, wait);
  };

  pause.addEventListener("click", () => {
    const paused = pause.getAttribute("aria-pressed") === "true";
    pause.setAttribute("aria-pressed", String(!paused));
    pause.textContent = paused ? "pause" : "go on";
    look();
  });
  document.addEventListener("visibilitychange", look);
  live.hidden = false;
  look();
}
