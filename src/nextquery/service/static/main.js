// Wires the page together: what was typed, what the service says, what is shown.

import "/widget/box.js";
import { NextqueryClient } from "/widget/client.js";
import { startAdministration } from "./administration.js";
import { Chips } from "./chips.js";
import { element } from "./elements.js";
import { Lists } from "./lists.js";
import { passed, reason } from "./reasons.js";
import { Recovery } from "./recovery.js";
import { startTheme } from "./theme.js";

const N = 8;
const SLOW_MS = 1200;
const KEY = "nextquery-key";
const $ = (id) => document.getElementById(id);
const input = $("search");
const box = $("box");

const state = { queries: [], models: [], feedback: false, shown: null, asked: null };
// The page shows the whole session and sends it itself, so it needs no pseudonym.
const client = new NextqueryClient({ session: null, timeoutMs: 10_000 });
const chips = new Chips($("chips"), remove);
const lists = new Lists($("lists"), take);
const recovery = new Recovery(tryAgain);
lists.onMeant = (text) => {
  state.queries[state.queries.length - 1] = text; // instead of what was typed
  update();
};

const chosenModel = () => state.models.find((model) => model.name === $("model").value);
const comparing = () => $("compare").checked && state.models.length > 1;
const shownModels = () => (comparing() ? state.models : [chosenModel()]).filter(Boolean);

box.client = client;
box.options = () => ({ context: state.queries, model: chosenModel()?.name });

function useKey(key) {
  client.key = key ?? "";
}

function add(text) {
  const query = text.trim();
  box.close();
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
  recovery.cancel();
  const { signal } = (state.asked = new AbortController());
  showSession();
  if (!state.models.length) return start();
  lists.busy(true);
  askWeights(signal);
  const slow = setTimeout(() => notice("The service is slow.", "The list is still to come."), SLOW_MS);
  try {
    const columns = await askLists(signal);
    lists.show(columns);
    report(columns);
    showReasons(columns);
    recovery.succeeded();
    const late = columns.filter((column) => column.temporary);
    if (late.length) recovery.later(Math.max(...late.map((column) => column.retryAfterMs)));
  } catch (error) {
    failed(error, signal);
  } finally {
    clearTimeout(slow);
    if (!signal.aborted) lists.busy(false);
  }
}

/** No list is better than an old one under a new query: say what is the matter, and ask again. */
function failed(error, signal) {
  if (signal?.aborted) return;
  if (error.status === 401) return askKey();
  notice(error.message, error.temporary ? "The page tries again by itself." : "");
  if (error.temporary) recovery.later(error.retryAfterMs);
}

/** For the eye among the lists, for the ear in the status line. */
function notice(problem, more) {
  lists.notice(problem, more, tryAgain);
  $("status").textContent = `${problem} ${more}`;
  $("status").classList.add("hidden");
}

function tryAgain() {
  client.resume();
  update();
}

function showSession() {
  const some = state.queries.length > 0;
  document.body.classList.toggle("started", some);
  $("session").hidden = !some;
  $("results-title").textContent = some ? "What may come next" : "Where sessions begin";
  chips.show(state.queries);
}

/** A slider that was not touched stands where the model has it. */
function showDefaults() {
  if ($("specificity-value").textContent === "auto") $("specificity").value = chosenModel()?.specificity ?? 0;
}

/** Only what was chosen is sent: everything else is the model's default. */
function settings() {
  const specificity = $("specificity-value").textContent === "auto" ? {} : { specificity: Number($("specificity").value) };
  const known = $("known").value ? { known: $("known").value } : {};
  return { diversity: Number($("diversity").value), ...specificity, ...known };
}

function askLists(signal) {
  const options = { n: N, ...settings(), signal };
  const one = async (model) => {
    try {
      return await askList({ ...options, model: model.name });
    } catch (error) {
      if (signal.aborted || error.status === 401 || !comparing()) throw error;
      const { temporary, retryAfterMs } = error;
      return { name: model.name, problem: error.message, temporary, retryAfterMs };
    }
  };
  return Promise.all(shownModels().map(one));
}

async function askList(options) {
  const context = state.queries.slice(0, -1);
  const begin = performance.now();
  const answer = await client.suggest(state.queries.at(-1) ?? "", { context, ...options });
  const ms = Math.round(performance.now() - begin);
  if (!state.queries.length && !answer.suggestions.length) {
    // A model that needs a last query can still complete the first one.
    const { model, signal } = options;
    answer.suggestions = (await client.complete("", { model, signal, n: N })).completions;
  }
  const note = `${answer.fallback ? `${answer.model} answered · ` : ""}${ms} ms`;
  return { ...answer, name: options.model, note, id: answer.query_id };
}

/** Bars of the model that explains itself; they are an extra and may be missing. */
async function askWeights(signal) {
  const model = state.models.find((served) => served.explains && served === chosenModel())
    ?? (comparing() && state.models.find((served) => served.explains));
  $("gates-note").hidden = true;
  if (!model || state.queries.length === 0) return;
  try {
    const answer = await client.call("/v1/explain", { context: state.queries, model: model.name }, { signal });
    if (signal.aborted) return;
    chips.weigh(answer.queries);
    $("gates-note").hidden = false;
  } catch {
    // The list says what is the matter.
  }
}

/** Why each suggestion is shown: how likely it is with the session and without, and the guard. */
function showReasons(columns) {
  if (!$("why").checked) return;
  columns.forEach(({ name, suggestions = [] }, index) => {
    const users = state.models.find((served) => served.name === name)?.min_users;
    const said = suggestions.map((item) => [
      item.text,
      [reason(item.log_likelihood, item.log_prior), passed(item.source, users)],
    ]);
    lists.explain(index, new Map(said));
  });
}

function report(columns) {
  const count = columns.reduce((sum, column) => sum + (column.suggestions?.length ?? 0), 0);
  const from = columns.map((column) => column.name).join(", ");
  const note = columns.length === 1 ? ` · ${columns[0].note}` : "";
  $("status").textContent = `${count} suggestion${count === 1 ? "" : "s"} · ${from}${note}`;
  $("status").classList.remove("hidden");
  const [first] = columns;
  const query = state.queries.at(-1);
  if (!query || !first?.suggestions?.length) return;
  const suggestions = first.suggestions.map((item) => item.text);
  state.shown = first.id;
  tell({ action: "shown", query, query_id: first.id, suggestions });
}

/** Feedback is a courtesy: the page works the same when it cannot be given. */
function tell(event) {
  if (state.feedback) client.feedback(event);
}

function askKey() {
  if (!$("key-dialog").open) $("key-dialog").showModal();
}

/** With an admin key every suggestion shown can be blocked where it stands. */
function letBlock(block) {
  if (lists.onBlock === block) return;
  lists.onBlock = block;
  update();
}

/** The box has had its turn: keys that it took do not come here. */
function onKey(event) {
  if (event.isComposing || event.defaultPrevented) return;
  if (event.key === "ArrowDown") {
    event.preventDefault();
    lists.focus();
  } else if (event.key === "Escape") {
    input.value = "";
    box.close();
  } else if (event.key === "Backspace" && input.value === "" && state.queries.length > 0) {
    state.queries.pop();
    update();
  }
}

async function start() {
  let facts;
  try {
    facts = await client.call("/v1/models", undefined, { retries: 1 });
  } catch (error) {
    return failed(error);
  }
  if (!facts.models.length) {
    $("status").textContent = "The model is being loaded.";
    recovery.later();
    return;
  }
  state.models = facts.models;
  state.feedback = facts.feedback;
  $("model").replaceChildren(...facts.models.map(({ name }) => element("option", { value: name }, name)));
  const several = facts.models.length > 1;
  $("model-label").hidden = $("compare-label").hidden = !several;
  showDefaults();
  update();
}

startTheme($("theme"));
const admin = Object.fromEntries(["form", "query", "key", "block", "answer", "status"].map((id) => [id, $(`admin-${id}`)]));
startAdministration(admin, () => state.queries, {
  onReady: letBlock,
  onBlocked: () => setTimeout(update, 1000), // when every worker has read it
});
$("form").addEventListener("submit", (event) => event.preventDefault());
box.addEventListener("nextquery-search", (event) => add(event.detail.query));
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
for (const [id, digits] of [["diversity", 1], ["specificity", 2]]) {
  $(id).addEventListener("input", (event) => {
    $(`${id}-value`).textContent = Number(event.target.value).toFixed(digits);
  });
}
$("settings").open = matchMedia("(min-width: 48rem)").matches;
for (const id of ["diversity", "specificity", "known", "model", "compare", "why"]) {
  $(id).addEventListener("change", () => {
    $("model-label").hidden = comparing() || state.models.length < 2;
    showDefaults();
    update();
  });
}
$("key-form").addEventListener("submit", () => {
  sessionStorage.setItem(KEY, $("key").value);
  useKey($("key").value);
  tryAgain();
});
useKey(sessionStorage.getItem(KEY));
start();
