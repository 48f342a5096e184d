// What this visitor searched for before, in localStorage of the page's own origin and nowhere else.
// Where storage is refused (blocked, full, some private windows) nothing is kept.

const NAME = "nextquery-history";
const MOST = 200;
const REPEAT_SECONDS = 1800; // the same query again within half an hour is one search
const MAX_CHARACTERS = 512;

const keyOf = (query) => query.trim().toLowerCase().replace(/\s+/g, " ");
const isEntry = ({ query, time, count } = {}) => typeof query === "string" && time > 0 && Number.isInteger(count) && count > 0;

export class SearchHistory {
  #seconds;

  constructor({ days = 90 } = {}) {
    this.#seconds = days * 86_400;
  }

  /** The searches that have not expired, newest first: `{query, time, count}`. */
  get entries() {
    return this.#read().map(({ query, time, count }) => ({ query, time, count }));
  }

  /** The same without a search for `query` that was just made: what was typed before it. */
  before(query) {
    const [key, now] = [keyOf(query), Date.now() / 1000];
    return this.#read().flatMap(({ query, time, count, earlier }) => {
      if (query !== key || now - time > REPEAT_SECONDS) return { query, time, count };
      return earlier ? { query, time: earlier, count: count - 1 } : [];
    });
  }

  /** A search was made. */
  add(query) {
    const [key, now] = [keyOf(query), Date.now() / 1000];
    if (!key || key.length > MAX_CHARACTERS) return;
    const all = this.#read();
    const known = all.find((entry) => entry.query === key);
    const repeats = known && known === all[0] && now - known.time <= REPEAT_SECONDS;
    const entry = { query: key, time: now, count: (known?.count ?? 0) + (repeats ? 0 : 1) };
    const earlier = repeats ? known.earlier : known?.time;
    this.#write([{ ...entry, ...(earlier && { earlier }) }, ...all.filter((other) => other !== known)]);
  }

  /** Forget a query. */
  remove(query) {
    this.#write(this.#read().filter((entry) => entry.query !== keyOf(query)));
  }

  /** Forget everything. */
  clear() {
    this.#write([]);
  }

  #read() {
    let kept;
    try {
      kept = JSON.parse(localStorage.getItem(NAME));
    } catch {
      // Refused or altered: there is no history.
    }
    const oldest = Date.now() / 1000 - this.#seconds;
    if (!Array.isArray(kept)) return [];
    return kept.filter((entry) => isEntry(entry ?? {}) && entry.time > oldest).slice(0, MOST);
  }

  #write(entries) {
    try {
      if (entries.length) localStorage.setItem(NAME, JSON.stringify(entries.slice(0, MOST)));
      else localStorage.removeItem(NAME);
    } catch {
      // Refused: nothing is kept.
    }
  }
}
