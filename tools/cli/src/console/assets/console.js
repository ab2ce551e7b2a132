// Keeps up to date what moves while somebody looks: arrivals, and the progress of an order. Everything works without it.
"use strict";

const PAUSE_MS = 1000, SILENCE_MS = 5000;
const pause = document.getElementById("pause"), silent = document.getElementById("silent");
const looks = () => !document.hidden && pause?.getAttribute("aria-pressed") !== "true";
let timer, asking = false;

// Changes what is in the part with the same id, and gives the focus to the control that is where the focused one was.
const put = (fresh) => {
  const part = document.getElementById(fresh.id);
  part.dataset.poll = fresh.dataset.poll ?? "";
  if (part.innerHTML === fresh.innerHTML) return;
  const controls = () => [...part.querySelectorAll("a, button")];
  const place = controls().indexOf(document.activeElement);
  part.replaceChildren(...fresh.childNodes);
  controls()[place]?.focus({ preventScroll: true });
};

const look = async () => {
  clearTimeout(timer);
  const address = document.querySelector("[data-poll]:not([data-poll=''])")?.dataset.poll;
  if (asking || !address || !looks()) return;
  asking = true;
  try {
    const answer = await fetch(address);
    if (!answer.ok) throw new Error(answer.status);
    const holder = document.createElement("template");
    holder.innerHTML = await answer.text();
    [...holder.content.children].forEach(put);
    silent.hidden = true;
  } catch {
    silent.hidden = false;
  }
  asking = false;
  timer = setTimeout(look, silent.hidden ? PAUSE_MS : SILENCE_MS);
};

pause?.addEventListener("click", () => {
  const goesOn = !looks();
  pause.setAttribute("aria-pressed", String(!goesOn));
  pause.textContent = goesOn ? "pause" : "go on";
  look();
});
if (pause) pause.parentElement.hidden = false;
document.addEventListener("visibilitychange", look);
look();
