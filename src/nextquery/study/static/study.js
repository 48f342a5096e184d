// The assessor's page. A judgement counts as made only when the server has confirmed it.

const VALUES = [
  { value: "useful", label: "Useful", kind: "useful" },
  { value: "somewhat useful", label: "Somewhat", kind: "somewhat" },
  { value: "not useful", label: "Not useful", kind: "not" },
];
const TIMEOUT_MS = 15_000;
const RETRY_MS = 3000;
const base = location.pathname.replace(/\/$/, "");
const element = (id) => document.getElementById(id);

let topics = [];
let position = 0; // index of the topic shown; topics.length is the closing page
let current = 0; // index of the suggestion that the keys 1, 2 and 3 judge
let retryTimer = 0;
const made = []; // the judgements that undo takes back: {topic, index, before}
const isOpen = (topic) => topic.suggestions.some((suggestion) => suggestion.value === null);

/** `final` is set when asking again cannot help: the server has understood and refused. */
async function request(path, body) {
  const options = body
    ? { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }
    : {};
  const answer = await fetch(base + path, { ...options, signal: AbortSignal.timeout(TIMEOUT_MS) }).catch(() => {
    throw new Error("The server does not answer.");
  });
  if (!answer.ok) {
    const problem = await answer.json().catch(() => ({}));
    const said = typeof problem.detail === "string" ? problem.detail : `The server answered ${answer.status}.`;
    throw Object.assign(new Error(said), { final: answer.status < 500 });
  }
  return answer.json();
}

async function load() {
  clearTimeout(retryTimer);
  try {
    topics = (await request("/state")).topics;
  } catch (error) {
    return fail(error);
  }
  const open = topics.findIndex(isOpen);
  show(open === -1 ? topics.length : open);
}

function show(index) {
  position = index;
  const topic = topics[position];
  element("failure").hidden = true;
  element("topic").hidden = element("judging").hidden = !topic;
  const open = topics.filter(isOpen).length;
  element("finished").hidden = Boolean(topic) || open > 0;
  element("unfinished").hidden = Boolean(topic) || open === 0;
  if (topic) {
    drawTopic(topic);
    const first = topic.suggestions.findIndex((s) => s.value === null);
    select(first === -1 ? 0 : first, true);
    window.scrollTo(0, 0);
  } else {
    drawEnd(open);
  }
  drawProgress();
}

/** Past the last topic: thanks only to somebody who has judged everything. */
function drawEnd(open) {
  const left = topics.flatMap((topic) => topic.suggestions).filter((s) => s.value === null).length;
  element("unfinished-text").textContent =
    `${left} ${left === 1 ? "suggestion has" : "suggestions have"} no judgement yet, in ` +
    `${open} ${open === 1 ? "topic" : "topics"}.`;
  element(open ? "unfinished" : "finished").focus();
}

function drawTopic(topic) {
  element("query").textContent = topic.query;
  element("description").textContent = topic.description;
  element("context").hidden = topic.context.length === 0;
  element("context").replaceChildren(...topic.context.map((query) => makeText("li", query)));
  element("suggestions").replaceChildren(...topic.suggestions.map(drawSuggestion));
}

function make(tag, text = "", className = "") {
  const created = document.createElement(tag);
  created.textContent = text;
  created.className = className;
  return created;
}

/** Text that somebody typed or a model made: its direction never changes the text next to it. */
function makeText(tag, text) {
  const created = make(tag, text);
  created.dir = "auto";
  return created;
}

function drawSuggestion(suggestion, index) {
  const row = make("li");
  const group = make("fieldset");
  const scale = make("div", "", "scale");
  for (const { value, label, kind } of VALUES) {
    const choice = make("label", "", kind);
    const input = make("input");
    Object.assign(input, { type: "radio", name: `item-${suggestion.item}`, value, checked: suggestion.value === value });
    input.addEventListener("focus", () => select(index, false));
    input.addEventListener("change", () => judge(index, value));
    choice.append(input, make("span", label));
    scale.append(choice);
  }
  group.append(makeText("legend", suggestion.text), scale);
  row.append(group);
  return row;
}

function select(index, focus) {
  const rows = [...element("suggestions").children];
  current = Math.max(0, Math.min(index, rows.length - 1));
  rows.forEach((row, i) => row.classList.toggle("current", i === current));
  if (focus && rows[current]) {
    const chosen = rows[current].querySelector("input:checked") ?? rows[current].querySelector("input");
    chosen.focus();
  }
}

// Judgements are sent one after the other, so that the server sees them in the order they were made.
let queue = Promise.resolve();

function judge(index, value, remember = true) {
  const topic = position;
  queue = queue.then(() => send(topic, index, value, remember));
  return queue;
}

async function send(topic, index, value, remember) {
  const suggestion = topics[topic]?.suggestions[index];
  if (!suggestion) return;
  element("saved").textContent = "Saving…";
  try {
    await request("/judgements", { item: suggestion.item, value });
  } catch (error) {
    return fail(error);
  }
  if (remember) made.push({ topic, index, before: suggestion.value });
  suggestion.value = value;
  element("saved").textContent = "Saved";
  if (topic === position) mark(index, suggestion);
  drawProgress();
}

function mark(index, suggestion) {
  for (const input of element("suggestions").children[index].querySelectorAll("input")) {
    input.checked = input.value === suggestion.value;
  }
}

// The keys move on at once, so that fast typing judges one suggestion after the other.
function judgeCurrent(value) {
  const { suggestions } = topics[position];
  const index = current;
  suggestions[index].sending = true;
  judge(index, value).then(() => { suggestions[index].sending = false; });
  const open = suggestions.findIndex((s) => s.value === null && !s.sending);
  if (open === -1) element("next").focus();
  else select(open, true);
}

function undo() {
  queue = queue.then(async () => {
    const last = made.pop();
    if (!last) return;
    if (last.topic !== position) show(last.topic);
    await send(last.topic, last.index, last.before, false);
    select(last.index, true);
  });
}

function drawProgress() {
  const all = topics.flatMap((topic) => topic.suggestions);
  const done = all.filter((suggestion) => suggestion.value !== null).length;
  const place = position < topics.length ? `Topic ${position + 1} of ${topics.length} · ` : "";
  element("progress-label").textContent = `${place}${done} of ${all.length} judged`;
  Object.assign(element("progress"), { max: Math.max(all.length, 1), value: done });
  element("back").disabled = position === 0;
  element("next").disabled = position >= topics.length;
  element("undo").disabled = made.length === 0;
  const topic = topics[position];
  element("next").classList.toggle("ready", Boolean(topic) && topic.suggestions.every((s) => s.value !== null));
}

function fail(error) {
  const next = error.final ? "" : " The page tries again by itself.";
  element("failure-text").textContent = `${error.message} What was confirmed as saved is safe.${next}`;
  for (const id of ["topic", "judging", "finished", "unfinished"]) element(id).hidden = true;
  element("failure").hidden = false;
  element("saved").textContent = "";
  clearTimeout(retryTimer);
  if (!error.final) retryTimer = setTimeout(load, RETRY_MS);
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || element("judging").hidden) return;
  const choice = VALUES[Number(event.key) - 1];
  if (choice) judgeCurrent(choice.value);
  else if (event.key === "u" || event.key === "U") undo();
  else if (event.key === "ArrowDown") select(current + 1, true);
  else if (event.key === "ArrowUp") select(current - 1, true);
  else return;
  event.preventDefault();
});
element("undo").addEventListener("click", undo);
element("back").addEventListener("click", () => show(Math.max(0, position - 1)));
element("next").addEventListener("click", () => show(position + 1));
element("retry").addEventListener("click", load);
element("resume").addEventListener("click", () => show(topics.findIndex(isOpen)));
addEventListener("online", () => { if (!element("failure").hidden) load(); });
load();
