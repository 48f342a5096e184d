// Suggestions without a server: reads what `nextquery export MODEL --to static` wrote, from any file
// server. It replaces NextqueryClient: `box.client = new StaticClient({ url: "/suggestions" })`.

import { NextqueryError, Session } from "./client.js";

const INVISIBLE =
  /[\p{Cf}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\u{e0000}-\u{e0fff}]/gu;
const PERSIAN_NON_JOINER = /(?<=[\u0600-\u06ff])\u200c(?=[\u0600-\u06ff])/g;

// Chinese, Japanese and Thai are written without spaces, and so are the keys of the files.
const UNSPACED =
  "々〇\\u3400-\\u4dbf\\u4e00-\\u9fff\\uf900-\\ufaff\\u{20000}-\\u{3ffff}\\u3040-\\u30ff\\u31f0-\\u31ff\\u0e00-\\u0e7f";
const RUN = new RegExp(`[${UNSPACED}]+`, "gu");
const GAP = new RegExp(`(?<=[${UNSPACED}]) +(?=[${UNSPACED}])`, "gu");

const visible = (text) => text.replace(PERSIAN_NON_JOINER, " ").replace(INVISIBLE, "");

/** A query as the export has it: as `normalise_query` of the Python package, words written as people do. */
export function normaliseQuery(text) {
  const lowered = visible(text).normalize("NFKC").toLowerCase().normalize("NFKC");
  const read = visible(lowered)
    .replace(/['’ʼ＇`]/g, "")
    .replace(/(?<=\p{L})[@$]+(?=\p{L})/gu, (symbols) => symbols.replaceAll("@", "a").replaceAll("$", "s"));
  const words = read.replace(/[^\p{L}\p{N}\p{M}]+/gu, " ").normalize("NFKC");
  return words.replace(RUN, " $& ").replace(GAP, "").replace(/ +/g, " ").trim();
}

export class StaticClient {
  #index;
  #shards = new Map();

  constructor({ url = "", timeoutMs = 2000, session = new Session() } = {}) {
    Object.assign(this, { url: url.replace(/\/$/, ""), timeoutMs, session });
  }

  /** The list after a query, without what the session already has. */
  async suggest(query, { n = 5, context, signal } = {}) {
    if (query) this.session?.add(query);
    const all = [...(context ?? this.session?.queries ?? []), query].map(normaliseQuery);
    let fresh = [];
    // Where a query has no list, that of the one before it serves: its shard is here already.
    for (const typed of [...new Set(all.toReversed())]) {
      const lists = await this.#lists(typed, signal);
      fresh = Object.hasOwn(lists, typed) ? lists[typed].filter((text) => !all.includes(text)) : [];
      if (fresh.length) break;
    }
    const suggestions = fresh.slice(0, n).map((text, place) => ({ text, score: -place, source: "exported" }));
    return { suggestions, model: "static", fallback: false, query_id: "" };
  }

  /** Files hold no completions. */
  async complete() {
    return { completions: [], model: "static" };
  }

  /** There is nobody to tell. */
  async feedback() {
    return false;
  }

  resume() {
    this.#index = undefined;
    this.#shards.clear();
  }

  async #lists(query, signal) {
    this.#index ??= await this.#file("index.json", signal);
    const bytes = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(query));
    const hash = [...new Uint8Array(bytes)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    const name = hash.slice(0, this.#index.characters);
    const file = `shards/${name}.json${this.#index.version > 1 ? ".gz" : ""}`;
    if (!this.#shards.has(name)) this.#shards.set(name, await this.#file(file, signal));
    return this.#shards.get(name);
  }

  /** A shard without lists is not written: its file may be missing. */
  async #file(name, signal) {
    const limit = AbortSignal.timeout(this.timeoutMs);
    let response;
    try {
      response = await fetch(`${this.url}/${name}`, { signal: signal ? AbortSignal.any([signal, limit]) : limit });
    } catch (error) {
      if (signal?.aborted) throw error;
      throw new NextqueryError(0, "The files cannot be reached.");
    }
    if (response.status === 404 && name !== "index.json") return {};
    if (!response.ok) throw new NextqueryError(response.status, `No file ${name}.`);
    const bytes = await response.arrayBuffer();
    // Some servers send a .gz file as what it unpacks to: then it is unpacked already.
    const [first, second] = new Uint8Array(bytes);
    if (first !== 0x1f || second !== 0x8b) return JSON.parse(new TextDecoder().decode(bytes));
    return new Response(new Response(bytes).body.pipeThrough(new DecompressionStream("gzip"))).json();
  }
}
