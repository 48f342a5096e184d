// Wires the page together: what was typed, what the service says, what is shown.

import * as api from "./api.js";
import { Chips } from "./chips.js";
import { Completion } from "./completion.js";
import { element } from "./elements.js";
import { Lists } from "./lists.js";
import { startTheme } from "./theme.js";

const N = 8;
const $ = (id) => document.getElementById(id);
const input = $("search");

const state = { queries: [], models: [], feedback: false, shown: null, asked: null };
const client = crypto.randomUUID?.() ?? `page-${Math.random().toString(36).slice(2)}`;

const chips = new Chips($("chips"), remove);
const lists = new Lists($("lists"), take);
const completion = new Completion(input, $("completions"), askCompletions, add);

const chosenModel = () => state.models.find((model) => model.name === $("model").value);
const comparing = () => $("compare").checked && state.models.length > 1;
const shownModels = () => (comparing() ? state.models : [chosenModel()]).filter(Boolean);

async function askCompletions(prefix, signal) {
  if (!chosenModel()) return [];
  return (await api.complete(state.queries, prefix, chosenModel().name, signal)).completions;
}

function add(text) {
  const query = text.trim();
  completion.close();
  input.value = "";
  input.focus();
  if (!query) return;
  if (query !== state.queries.at(-1)) state.queries.push(query);
  update();
}

function take(text, column, position) {
  const query = state.queries.at(-1);
  if (query) tell({ action: "clicked", query, query_id: column.id, suggestion: text, position });
  add(text);
}

function remove(index) {
  state.queries.splice(index, 1);
  update();
  if (!chips.focus(index)) input.focus();
}

/** Ask for everything that depends on the session; an older answer never replaces a newer one. */
async function update() {
  state.asked?.abort();
  const { signal } = (state.asked = new AbortController());
  showSession();
  lists.busy(true);
  try {
    const [columns] = await Promise.all([askLists(signal), askWeights(signal)]);
    lists.show(columns);
    lists.busy(false);
    report(columns);
  } catch (error) {
    if (error.name === "AbortError") return;
    lists.busy(false);
    if (error.status === 401) askKey();
    else $("status").textContent = error.message;
  }
}

function showSession() {
  const some = state.queries.length > 0;
  document.body.classList.toggle("started", some);
  $("session").hidden = !some;
  $("results-title").textContent = some ? "What may come next" : "Where sessions begin";
  chips.show(state.queries);
}

function askLists(signal) {
  const options = { n: N, diversity: Number($("diversity").value) };
  const one = async (model) => {
    try {
      const answer = await api.suggest(state.queries, { ...options, model: model.name }, signal);
      if (!state.queries.length && !answer.suggestions.length) {
        // A model that needs a last query still knows how queries begin.
        answer.suggestions = (await api.complete([], "", model.name, signal)).completions;
      }
      const note = `${answer.fallback ? `${answer.model} answered · ` : ""}${answer.took_ms} ms`;
      return { name: model.name, note, id: answer.query_id, ...answer };
    } catch (error) {
      if (error.name === "AbortError" || error.status === 401 || !comparing()) throw error;
      return { name: model.name, problem: error.message };
    }
  };
  return Promise.all(shownModels().map(one));
}

async function askWeights(signal) {
  const model = state.models.find((each) => each.explains && each === chosenModel())
    ?? (comparing() && state.models.find((each) => each.explains));
  $("gates-note").hidden = !model || state.queries.length === 0;
  if (!model || state.queries.length === 0) return;
  const answer = await api.explain(state.queries, model.name, signal);
  chips.weigh(answer.queries);
}

function report(columns) {
  const count = columns.reduce((sum, column) => sum + (column.suggestions?.length ?? 0), 0);
  const from = columns.map((column) => column.name).join(", ");
  const note = columns.length === 1 ? ` · ${columns[0].note}` : "";
  $("status").textContent = `${count} suggestions · ${from}${note}`;
  const [first] = columns;
  const query = state.queries.at(-1);
  if (!query || !first?.suggestions?.length) return;
  const suggestions = first.suggestions.map((item) => item.text);
  state.shown = first.id;
  tell({ action: "shown", query, query_id: first.id, suggestions });
}

/** Feedback is a courtesy: the page works the same when it cannot be given. */
function tell(event) {
  if (state.feedback) api.feedback({ client_id: client, ...event }).catch(() => {});
}

function askKey() {
  $("key-dialog").showModal();
}

function onKey(event) {
  if (event.key === "ArrowDown") {
    event.preventDefault();
    if (completion.open) completion.move(1);
    else lists.focus();
  } else if (event.key === "ArrowUp" && completion.open) {
    event.preventDefault();
    completion.move(-1);
  } else if (event.key === "Escape") {
    if (completion.open) completion.close();
    else input.value = "";
  } else if (event.key === "Backspace" && input.value === "" && state.queries.length > 0) {
    state.queries.pop();
    update();
  }
}

async function start() {
  let facts;
  try {
    facts = await api.models();
  } catch (error) {
    if (error.status === 401) return askKey();
    $("status").textContent = error.message;
    return;
  }
  if (!facts.models.length) {
    $("status").textContent = "The model is being loaded.";
    setTimeout(start, 1000);
    return;
  }
  state.models = facts.models;
  state.feedback = facts.feedback;
  $("model").replaceChildren(...facts.models.map(({ name }) => element("option", { value: name }, name)));
  const several = facts.models.length > 1;
  $("model-label").hidden = $("compare-label").hidden = !several;
  update();
}

startTheme($("theme"));
$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  add(completion.chosen ?? input.value);
});
input.addEventListener("keydown", onKey);
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input:not([type=range]):not([type=checkbox]), select");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    input.focus();
  }
});
$("clear").addEventListener("click", () => {
  const query = state.queries.at(-1);
  if (query && state.shown) tell({ action: "dismissed", query, query_id: state.shown });
  state.queries = [];
  update();
  input.focus();
});
$("diversity").addEventListener("input", (event) => {
  $("diversity-value").textContent = Number(event.target.value).toFixed(1);
});
for (const id of ["diversity", "model", "compare"]) {
  $(id).addEventListener("change", () => {
    $("model-label").hidden = comparing() || state.models.length < 2;
    update();
  });
}
$("key-form").addEventListener("submit", () => {
  api.rememberKey($("key").value);
  start();
});
start();
