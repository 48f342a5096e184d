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
const floats = (values, ...shape) => new ort.Tensor("float32", Float32Array.from(values), shape);
const integers = (values, ...shape) => new ort.Tensor("int64", BigInt64Array.from(values, BigInt), shape);

// Simplified: README.md has the whole rule.
const normalise = (typed) =>
  typed.normalize("NFKC").toLowerCase().replace(/['’]/g, "").replace(/[^\p{L}\p{N}\p{M}]+/gu, " ").trim();

const part = (output, row, width) => output.data.subarray(row * width, (row + 1) * width);

/** HRED: the state of a prefix is that of its decoder. */
async function hred() {
  const queryEncoder = await opened("query_encoder");
  const sessionEncoder = await opened("session_encoder");
  const decoder = await opened("decoder");

  const encodeQuery = (query) => {
    const read = [...query, END];
    return queryEncoder.run({ words: integers(read, 1, read.length), lengths: integers([read.length], 1) });
  };
  const extend = async (state, query_vector) =>
    (await sessionEncoder.run({ session_state: state, query_vector })).next_session_state;

  return {
    size: facts.query_size,
    async read(queries) {
      let session = floats(new Float32Array(facts.session_size), 1, facts.session_size);
      if (facts.start_query) session = await extend(session, (await encodeQuery([])).query_vector);
      const wordStates = [];
      for (const query of queries) {
        const { query_vector, word_states } = await encodeQuery(query);
        session = await extend(session, query_vector);
        if (facts.copying) wordStates.push(...word_states.data.subarray(0, query.length * facts.query_size));
      }
      return { session, wordStates, first: { state: new Float32Array(facts.query_size), last: PADDING } };
    },
    async step({ session }, beam, sources) {
      const outputs = await decoder.run({
        session_state: floats(beam.flatMap(() => [...session.data]), beam.length, facts.session_size),
        decoder_state: floats(beam.flatMap((prefix) => [...prefix.state]), beam.length, facts.query_size),
        word: integers(beam.map((prefix) => prefix.last), beam.length),
        ...sources,
      });
      return { outputs, states: beam.map((_, row) => part(outputs.next_decoder_state, row, facts.query_size)) };
    },
  };
}

/** The Transformer: the state of a prefix is its key-value cache, without its last word. */
async function transformer() {
  const graph = await opened("transformer");
  const width = facts.layers * 2 * facts.model_size; // numbers per symbol of a cache
  const cacheOf = (values, rows) =>
    floats(values, rows, values.length / rows / width, facts.layers, 2, facts.model_size);
  const nothing = { source_states: floats(new Float32Array(facts.model_size), 1, facts.model_size), source_ages: integers([0], 1) };

  return {
    size: facts.model_size,
    async read(queries) {
      const symbols = [END, ...queries.flatMap((query) => [...query, END])].slice(0, -1);
      if (!symbols.length) return { wordStates: [], first: { state: new Float32Array(0), last: END } };
      const given = { words: integers(symbols, 1, symbols.length), cache: cacheOf([], 1), ...(facts.copying ? nothing : {}) };
      const { word_states, next_cache } = await graph.run(given);
      const wordStates = symbols.flatMap((symbol, row) =>
        symbol === END ? [] : [...part(word_states, row, facts.model_size)]);
      return { wordStates, first: { state: next_cache.data, last: END } };
    },
    async step(_, beam, sources) {
      const rows = beam.length;
      const outputs = await graph.run({
        words: integers(beam.map((prefix) => prefix.last), rows, 1),
        cache: cacheOf(beam.flatMap((prefix) => [...prefix.state]), rows),
        ...sources,
      });
      return { outputs, states: beam.map((_, row) => part(outputs.next_cache, row, outputs.next_cache.data.length / rows)) };
    },
  };
}

const network = facts.kind === "transformer" ? await transformer() : await hred();

/** The session, and the words that copying may point at. */
async function readSession(context) {
  const queries = context.slice(-facts.max_queries).map((query) => query.split(" ").slice(0, facts.max_words));
  const session = await network.read(queries.map((query) => query.map((word) => ids.get(word) ?? UNKNOWN)));
  const sourceWords = facts.copying ? queries.flat() : [];
  const ages = queries.flatMap((query, position) => query.map(() => queries.length - position));
  const empty = !sourceWords.length;
  const sources = facts.copying && {
    source_states: floats(empty ? new Float32Array(network.size) : session.wordStates, empty ? 1 : ages.length, network.size),
    source_ages: empty ? integers([0], 1) : integers(ages, ages.length),
  };
  return { ...session, sourceWords, sources };
}

/** One step for all prefixes of the beam: their next states, and the probability of a next word. */
async function step(session, beam) {
  const { outputs, states } = await network.step(session, beam, session.sources || {});
  const sources = Math.max(1, session.sourceWords.length);
  return beam.map((_, row) => ({
    state: states[row],
    logProbability(word) {
      const id = word === null ? END : ids.get(word);
      let total = id === undefined ? 0 : Math.exp(part(outputs.log_probabilities, row, words.length)[id]);
      session.sourceWords.forEach((source, position) => {
        if (source === word) total += Math.exp(outputs.copy_log_probabilities.data[row * sources + position]);
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
  let beam = [{ node: tree(), ...session.first, score: 0 }];
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
