// Suggestions from this folder with onnxruntime, as a start for programs of your own.
//   npm install onnxruntime-node
//   node suggest.mjs "first query" "second query"
// Only known queries are shown: the beam walks a tree of them. README.md explains each step.

import { readFile } from "node:fs/promises";
import ort from "onnxruntime-node";

const BEAM = 10;
const SHOWN = 5;
const [PADDING, END, UNKNOWN] = [0, 1, 2];

const here = (name) => new URL(name, import.meta.url);
const text = (name) => readFile(here(name), "utf8");
const lines = async (name) => (await text(name)).trimEnd().split("\n");
const opened = async (name) => ort.InferenceSession.create(await readFile(here(`${name}.onnx`)));

const facts = JSON.parse(await text("model.json"));
const words = await lines("vocabulary.txt");
const ids = new Map(words.map((word, id) => [word, id]));
const known = (await lines("known_queries.ndjson")).map((line) => JSON.parse(line));
const queryEncoder = await opened("query_encoder");
const sessionEncoder = await opened("session_encoder");
const decoder = await opened("decoder");

const floats = (values, ...shape) => new ort.Tensor("float32", Float32Array.from(values), shape);
const integers = (values) => new ort.Tensor("int64", BigInt64Array.from(values, BigInt), [values.length]);

// Simplified: README.md has the whole rule.
const normalise = (typed) =>
  typed.normalize("NFKC").toLowerCase().replace(/['’]/g, "").replace(/[^\p{L}\p{N}\p{M}]+/gu, " ").trim();

async function encodeQuery(query) {
  const read = [...query.map((word) => ids.get(word) ?? UNKNOWN), END];
  const rows = new ort.Tensor("int64", BigInt64Array.from(read, BigInt), [1, read.length]);
  return queryEncoder.run({ words: rows, lengths: integers([read.length]) });
}

async function extend(state, query_vector) {
  return (await sessionEncoder.run({ session_state: state, query_vector })).next_session_state;
}

/** The session state, and the words that copying may point at. */
async function readSession(context) {
  let state = floats(new Float32Array(facts.session_size), 1, facts.session_size);
  if (facts.start_query) state = await extend(state, (await encodeQuery([])).query_vector);
  const sources = { words: [], states: [], ages: [] };
  const read = context.slice(-facts.max_queries);
  for (const [place, query] of read.entries()) {
    const split = query.split(" ").slice(0, facts.max_words);
    const { query_vector, word_states } = await encodeQuery(split);
    state = await extend(state, query_vector);
    if (!facts.copying) continue;
    sources.words.push(...split);
    sources.states.push(...word_states.data.subarray(0, split.length * facts.query_size));
    sources.ages.push(...split.map(() => read.length - place));
  }
  if (!sources.words.length) Object.assign(sources, { ages: [0], states: new Float32Array(facts.query_size) });
  return { state, sources };
}

/** One step for all prefixes of the beam: their next states, and the probability of a next word. */
async function step({ state, sources }, beam) {
  const rows = beam.length;
  const given = {
    session_state: floats(beam.flatMap(() => [...state.data]), rows, facts.session_size),
    decoder_state: floats(beam.flatMap((prefix) => [...prefix.state]), rows, facts.query_size),
    word: integers(beam.map((prefix) => prefix.last)),
  };
  if (facts.copying) {
    given.source_states = floats(sources.states, sources.ages.length, facts.query_size);
    given.source_ages = integers(sources.ages);
  }
  const found = await decoder.run(given);
  const part = (output, row, width) => output.data.subarray(row * width, (row + 1) * width);
  return beam.map((_, row) => ({
    state: part(found.next_decoder_state, row, facts.query_size),
    logProbability(word) {
      const id = word === null ? END : ids.get(word);
      let total = id === undefined ? 0 : Math.exp(part(found.log_probabilities, row, words.length)[id]);
      sources.words.forEach((source, place) => {
        if (source === word) total += Math.exp(found.copy_log_probabilities.data[row * sources.ages.length + place]);
      });
      return Math.log(total);
    },
  }));
}

/** The known queries as a tree of words. */
function tree() {
  const root = { children: new Map() };
  for (const { query, shown } of known) {
    let node = root;
    for (const word of query.split(" ")) {
      if (!node.children.has(word)) node.children.set(word, { children: new Map() });
      node = node.children.get(word);
    }
    Object.assign(node, { query, shown });
  }
  return root;
}

async function suggest(context) {
  const session = await readSession(context);
  let beam = [{ node: tree(), state: new Float32Array(facts.query_size), last: PADDING, score: 0 }];
  const finished = [];
  while (beam.length) {
    const steps = await step(session, beam);
    const longer = beam.flatMap((prefix, row) => {
      const { state, logProbability } = steps[row];
      const { query, shown } = prefix.node;
      if (query && !context.includes(query)) finished.push({ shown, score: prefix.score + logProbability(null) });
      return [...prefix.node.children].map(([word, node]) => ({
        node, state, last: ids.get(word) ?? UNKNOWN, score: prefix.score + logProbability(word),
      }));
    });
    beam = longer.filter(({ score }) => score > -Infinity).sort((a, b) => b.score - a.score).slice(0, BEAM);
  }
  return finished.sort((a, b) => b.score - a.score).slice(0, SHOWN);
}

const context = process.argv.slice(2).map(normalise).filter(Boolean);
console.log(JSON.stringify(await suggest(context)));
