// Asks for what is shown of the text, as it is typed; of several questions only the newest is answered.
"use strict";
const at = (id) => document.getElementById(id);
const [box, example, status, problems, tabs, shown] = ["text", "example", "status", "problems", "tabs", "shown"].map(at);
const tab = crypto.randomUUID();
let pane = "equations", waiting = 0, asking = null, told = [];

const post = async (path, data, signal) => {
  const answer = await fetch(path, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(data), signal,
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

box.addEventListener("input", later);
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
