// Keeps up to date what moves while somebody looks. Everything works without it.
"use strict";

const PAUSE_MS = 1000, SILENCE_MS = 5000, ANSWER_MS = 10_000;
const pause = document.getElementById("pause"), silent = document.getElementById("silent");
const looks = () => !document.hidden && pause?.textContent !== "go on";
let timer, asking = false;

// Changes what is in a part, and gives the focus to the control with the name of the focused one.
const put = ([fresh, part]) => {
  part.dataset.poll = fresh.dataset.poll ?? "";
  document.title = fresh.dataset.title ?? document.title;
  if (part.innerHTML === fresh.innerHTML) return;
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
    const parts = [...holder.content.children].map((fresh) => [fresh, document.getElementById(fresh.id)]).filter(([, part]) => part);
    // What somebody selects stays, and the next look gets all of it again.
    const selection = getSelection(), isSelected = ([, part]) => !selection.isCollapsed && part.contains(selection.anchorNode);
    if (looks() && !parts.some(isSelected)) parts.forEach(put);
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
