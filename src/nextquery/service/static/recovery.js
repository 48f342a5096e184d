// Asks again after a failure: by itself with growing pauses, when the network is back, or at once.

const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 15_000;

export class Recovery {
  #timer = 0;
  #failures = 0;
  #waiting = false;

  /** `ask()` is what failed. */
  constructor(ask) {
    this.ask = ask;
    addEventListener("online", () => this.#waiting && this.now());
    document.addEventListener("visibilitychange", () => this.#waiting && !document.hidden && this.now());
  }

  /** It failed: ask again later, not before `atLeastMs`. */
  later(atLeastMs = 0) {
    const pause = Math.min(FIRST_PAUSE_MS * 2 ** this.#failures, LONGEST_PAUSE_MS);
    this.#failures += 1;
    this.#waiting = true;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.now(), Math.max(pause, atLeastMs));
  }

  now() {
    this.cancel();
    this.ask();
  }

  /** Something newer is asked: leave it alone. */
  cancel() {
    clearTimeout(this.#timer);
    this.#waiting = false;
  }

  succeeded() {
    this.cancel();
    this.#failures = 0;
  }
}
