// Keeps up to date what moves while somebody looks: arrivals, and the progress of an order. Everything works without it.
"use strict";

const PAUSE_MS = 1000, SILENCE_MS = 5000, ANSWER_MS = 10_000;
const pause = document.getElementById("pause"), silent = document.getElementById("silent");
const looks = () => !document.hidden && pause?.textContent !== "go on";
let timer, asking = false;

// Changes what is in the part with the same id, unless somebody selects text there. The focus goes to the control of the same name.
const put = (fresh) => {
  const part = document.getElementById(fresh.id), selection = getSelection();
  part.dataset.poll = fresh.dataset.poll ?? "";
  document.title = fresh.dataset.title ?? document.title;
  if (part.innerHTML === fresh.innerHTML || (!selection.isCollapsed && part.contains(selection.anchorNode))) return;
  const name = (control) => control?.getAttribute("href") ?? control?.textContent;
  const focused = part.contains(document.activeElement) ? name(document.activeElement) : null;
  part.replaceChildren(...fresh.childNodes);
  if (focused) [...part.querySelectorAll("a, button")].find((it) => name(it) === focused)?.focus({ preventScroll: true });
};

const look = async () => {
  clearTimeout(timer);
  const address = document.querySelector("[data-poll]:not([data-poll=''])")?.dataset.poll;
  if (asking || !address || !looks()) return;
  asking = true;
  try {
    const answer = await fetch(address, { signal: AbortSignal.timeout(ANSWER_MS) });
    if (!answer.ok) throw new Error(answer.status);
    const holder = document.createElement("template");
    holder.innerHTML = await answer.text();
    if (looks()) [...holder.content.children].forEach(put);
    silent.hidden = true;
  } catch {
    silent.hidden = false;
  }
  asking = false;
  timer = setTimeout(look, silent.hidden ? PAUSE_MS : SILENCE_MS);
};

pause?.addEventListener("click", () => {
  pause.textContent = pause.textContent === "pause" ? "go on" : "pause";
  look();
});
if (pause) pause.hidden = false;
document.addEventListener("visibilitychange", look);
look();
