// The service's routes as functions. Independent of pages. Its timeouts: README.md.

const NAME = "nextquery-session";
const MAX_QUERIES = 20;
const FAILURES_BEFORE_PAUSE = 3;
const PAUSE_MS = 2000;
const MAX_PAUSE_MS = 60_000;
const MAX_KEPT_ALIVE = 16_000; // characters, in at most 64 KiB

const pseudonym = () => [...crypto.getRandomValues(new Uint32Array(4))].map((n) => n.toString(36)).join("-");

/** A visit under a pseudonym, in this tab only. It ends as on the server: when idle for too long. */
export class Session {
  #kept = null;
  #idleMs;

  constructor({ idleMinutes = 30 } = {}) {
    this.#idleMs = idleMinutes * 60_000;
  }

  get id() {
    return this.#read().id;
  }

  /** The searches of this visit, oldest first. */
  get queries() {
    return this.#read().queries;
  }

  /** A search was made: it joins the visit. */
  add(query) {
    const { id, queries } = this.#read();
    const all = query === queries.at(-1) ? queries : [...queries, query];
    this.#write({ id, queries: all.slice(-MAX_QUERIES), used: Date.now() });
  }

  end() {
    this.#write(null);
  }

  #read() {
    try {
      this.#kept = JSON.parse(sessionStorage.getItem(NAME));
    } catch {
      // Storage is forbidden or altered: the visit lasts as long as the page.
    }
    const { id, queries, used } = this.#kept ?? {};
    const awake = id && Array.isArray(queries) && Date.now() - used < this.#idleMs;
    return awake ? this.#kept : this.#write({ id: pseudonym(), queries: [], used: Date.now() });
  }

  #write(kept) {
    this.#kept = kept;
    try {
      sessionStorage.setItem(NAME, JSON.stringify(kept));
    } catch {
      // As above.
    }
    return kept;
  }
}

/** An answer other than the one asked for; `status` is 0 when there was none in time. */
export class NextqueryError extends Error {
  constructor(status, message, retryAfterMs = 0) {
    super(message);
    Object.assign(this, { status, retryAfterMs });
  }

  /** Whether the same request may do later. */
  get temporary() {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

export class NextqueryClient {
  #failures = 0;
  #pausedUntil = 0;

  /** With `session: null` no pseudonym is sent: every call then names its own `context`. */
  constructor({ url = "", key = "", timeoutMs = 2000, session = new Session() } = {}) {
    Object.assign(this, { url: url.replace(/\/$/, ""), key, timeoutMs, session });
    this.id = pseudonym();
  }

  /** What may be searched next. The query joins the session. */
  suggest(query, { signal, ...options } = {}) {
    if (query) this.session?.add(query);
    return this.call("/v1/suggest", { query, ...this.#visit(query ? -1 : undefined), ...options }, { signal, retries: 1 });
  }

  /** How a half-typed query may end. */
  complete(prefix, { signal, ...options } = {}) {
    return this.call("/v1/complete", { prefix, ...this.#visit(), ...options }, { signal });
  }

  /** What became of a list; gives whether it was recorded. Outlives the page, without cookies. */
  feedback(event) {
    const body = JSON.stringify({ client_id: this.session?.id ?? this.id, ...event });
    const keepalive = body.length < MAX_KEPT_ALIVE;
    const request = { method: "POST", body, keepalive, headers: this.#headers(body) };
    return fetch(`${this.url}/v1/feedback`, request).then(({ ok }) => ok, () => false);
  }

  /** Forget earlier failures: the next call goes out. */
  resume() {
    this.#failures = this.#pausedUntil = 0;
  }

  /** Any route: GET without a `value`, POST with one. */
  async call(path, value, { signal, retries = 0 } = {}) {
    const left = this.#pausedUntil - Date.now();
    if (left > 0) throw new NextqueryError(503, "The service is busy or away.", left);
    for (;;) {
      try {
        const answer = await this.#once(path, value, signal);
        this.resume();
        return answer;
      } catch (error) {
        if (signal?.aborted) throw error;
        if (error.temporary) this.#pause(error);
        if (error.status !== 0 || retries-- <= 0) throw error;
        await new Promise((resolve) => setTimeout(resolve, 150 + Math.random() * 150));
        signal?.throwIfAborted();
      }
    }
  }

  async #once(path, value, signal) {
    const body = value && JSON.stringify(value);
    const limit = AbortSignal.timeout(this.timeoutMs);
    let response, answer;
    try {
      response = await fetch(this.url + path, {
        method: body ? "POST" : "GET",
        headers: this.#headers(body),
        body,
        signal: signal ? AbortSignal.any([signal, limit]) : limit,
      });
      answer = await response.json();
    } catch (error) {
      if (signal?.aborted) throw error;
      throw new NextqueryError(0, `The service ${limit.aborted ? "does not answer in time" : "cannot be reached"}.`);
    }
    if (response.ok) return answer;
    const after = Number(response.headers.get("Retry-After")) * 1000 || 0;
    throw new NextqueryError(response.status, String(answer?.detail ?? "The request failed."), after);
  }

  #visit(end) {
    const { id, queries } = this.session ?? {};
    return id && { session_id: id, context: queries.slice(0, end) };
  }

  #headers(body) {
    return { ...(this.key && { "X-API-Key": this.key }), ...(body && { "Content-Type": "application/json" }) };
  }

  #pause({ retryAfterMs }) {
    const over = (this.#failures += 1) - FAILURES_BEFORE_PAUSE;
    const pause = retryAfterMs || (over < 0 ? 0 : PAUSE_MS * 2 ** over);
    this.#pausedUntil = Date.now() + Math.min(pause, MAX_PAUSE_MS);
  }
}
