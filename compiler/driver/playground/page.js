// Asks for what is shown of the text, as it is typed; of several questions only the newest is answered.
"use strict";
const at = (id) => document.getElementById(id);
const [box, example, status, problems, tabs, shown, offers] =
  ["text", "example", "status", "problems", "tabs", "shown", "offers"].map(at);
const tab = crypto.randomUUID();
let pane = "equations", waiting = 0, asking = null, told = [], turns = 0;

// Requests may reach the server in another order than they are sent: each has its turn.
const post = async (path, data, signal) => {
  const answer = await fetch(path, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ ...data, turn: ++turns }), signal,
  });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
};

// Places are counted in characters, and a string of this language in units of UTF-16.
const unit = (count) => Array.from(box.value).slice(0, count).join("").length;

const say = (text, kind = "") => { status.textContent = text; status.className = kind; };

const select = (start, end) => {
  box.focus();
  box.setSelectionRange(unit(start), Math.max(unit(end), unit(start)));
};

const mend = (fix) => {
  box.focus();
  box.setRangeText(fix.new, unit(fix.start), unit(fix.end), "end");
  ask();
};

const item = (problem) => {
  const line = document.createElement("li"), go = document.createElement("button"), text = document.createElement("pre");
  line.className = problem.severity;
  text.textContent = problem.text.trimEnd();
  go.className = "go";
  go.append(text);
  go.onclick = () => { if (problem.start !== null) select(problem.start, problem.end); };
  line.append(go);
  for (const fix of problem.fixes) {
    const button = document.createElement("button");
    button.className = "fix";
    button.textContent = `Apply: ${fix.text}`;
    button.onclick = () => mend(fix);
    line.append(button, " ");
  }
  return line;
};

const show = (found) => {
  if (found.stopped) {
    say(`stopped: ${found.stopped}`, "wrong");
    return;
  }
  told = found.problems;
  problems.replaceChildren(...told.map(item));
  const errors = told.filter((x) => x.severity === "error").length;
  say(found.sound ? `sound: ${found.summary}` : `${errors} error${errors === 1 ? "" : "s"}`, found.sound ? "sound" : "wrong");
  shown.classList.toggle("old", !found.sound);
  if (found.sound) shown.textContent = found.shown, shown.dataset.pane = found.pane;
};

const ask = async () => {
  clearTimeout(waiting);
  if (asking) asking.abort();
  const mine = asking = new AbortController();
  say("…");
  try {
    const found = await post("look", { text: box.value, pane, tab }, mine.signal);
    if (mine === asking) show(found);
  } catch (error) {
    if (mine === asking) say(error.name === "TypeError" ? "the server has ended" : error.message, "wrong");
  }
};

const later = () => {
  clearTimeout(waiting);
  waiting = setTimeout(ask, 200);
};

const choose = (button, focus = true) => {
  for (const other of tabs.children) {
    other.setAttribute("aria-selected", other === button);
    other.tabIndex = other === button ? 0 : -1;
  }
  pane = button.dataset.pane;
  shown.setAttribute("aria-labelledby", button.id);
  if (focus) button.focus();
  ask();
};

const open = async (name) => {
  try {
    box.value = (await post("spec", { name })).text;
    box.setSelectionRange(0, 0);
    await ask();
  } catch (error) {
    say(error.message, "wrong");
  }
};

// What may stand where the cursor is: a list below the text, with its arrows, Enter or Tab, and Escape.
let offered = [], chosen = 0;

const hide = () => { offered = []; offers.hidden = true; };

const mark = (number) => {
  chosen = (number + offered.length) % offered.length;
  [...offers.children].forEach((line, n) => line.setAttribute("aria-selected", n === chosen));
  offers.children[chosen].scrollIntoView({ block: "nearest" });
};

const take = (offer) => {
  hide();
  mend(offer);
};

const complete = async () => {
  const text = box.value, place = box.selectionStart;
  const found = await post("offers", { text, at: Array.from(text.slice(0, place)).length, tab }).catch(() => ({}));
  if (box.value !== text || box.selectionStart !== place) return;
  offered = found.offers || [];
  offers.replaceChildren(...offered.map((offer) => {
    const line = document.createElement("li"), detail = document.createElement("small");
    line.role = "option";
    detail.textContent = offer.detail;
    line.append(offer.label, detail);
    line.onmousedown = (event) => { event.preventDefault(); take(offer); };
    return line;
  }));
  offers.hidden = !offered.length;
  if (offered.length) mark(0);
};

const ofOffers = (event) => {
  if (!offered.length) return false;
  if (event.key === "Enter" || event.key === "Tab") take(offered[chosen]);
  else if (event.key === "ArrowDown") mark(chosen + 1);
  else if (event.key === "ArrowUp") mark(chosen - 1);
  else if (event.key === "Escape") hide();
  else return false;
  return true;
};

box.addEventListener("keydown", (event) => {
  if ((event.ctrlKey && event.code === "Space") || (!event.ctrlKey && !event.altKey && ofOffers(event))) {
    event.preventDefault();
    event.stopPropagation();
    if (event.ctrlKey) complete();
  }
});
box.addEventListener("blur", hide);
box.addEventListener("input", () => {
  later();
  if (/\\[A-Za-z]+$/.test(box.value.slice(0, box.selectionStart))) complete();
  else hide();
});
example.addEventListener("change", () => open(example.value));
for (const button of tabs.children) button.onclick = () => choose(button);
tabs.addEventListener("keydown", (event) => {
  const all = [...tabs.children], here = all.indexOf(document.activeElement);
  const next = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: all.length - 1 }[event.key];
  if (next !== undefined && here >= 0) {
    event.preventDefault();
    choose(all[(next + all.length) % all.length]);
  }
});
document.addEventListener("keydown", (event) => {
  const number = event.altKey && /^Digit[1-9]$/.test(event.code) ? Number(event.code.slice(5)) : 0;
  if (number && number <= tabs.children.length) {
    event.preventDefault();
    choose(tabs.children[number - 1], false);
  } else if (event.key === "F8" && told.length) {
    event.preventDefault();
    const places = told.filter((x) => x.start !== null), from = box.selectionStart;
    const next = places.find((x) => unit(x.start) > from) || places[0];
    if (next) select(next.start, next.end);
  } else if (event.altKey && event.code === "KeyF") {
    const fixes = told.flatMap((x) => x.fixes);
    event.preventDefault();
    if (fixes.length) mend(fixes[0]);
  } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    ask();
  }
});
open(example.value);
