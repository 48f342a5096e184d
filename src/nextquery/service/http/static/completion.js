// Completion while typing, after the WAI-ARIA combobox pattern. Knows nothing of the service.

import { element } from "./elements.js";

const PAUSE_MS = 90;

export class Completion {
  #timer = 0;
  #asked = null;
  #active = -1;

  /** `ask(prefix, signal)` gives suggestions; `onTake(text)` receives the chosen one. */
  constructor(input, list, ask, onTake) {
    this.input = input;
    this.list = list;
    this.ask = ask;
    this.onTake = onTake;
    input.addEventListener("input", () => this.#later());
    input.addEventListener("blur", () => this.close());
    // The box must keep the focus while a completion is clicked.
    list.addEventListener("pointerdown", (event) => event.preventDefault());
  }

  get open() {
    return !this.list.hidden;
  }

  /** The completion that the arrow keys point at, if any. */
  get chosen() {
    return this.list.children[this.#active]?.dataset.text;
  }

  /** Move by `step` through the list; past either end nothing is chosen. */
  move(step) {
    const count = this.list.children.length;
    this.#point(((this.#active + 1 + step + count + 1) % (count + 1)) - 1);
  }

  close() {
    clearTimeout(this.#timer);
    this.#asked?.abort();
    this.list.hidden = true;
    this.list.replaceChildren();
    this.input.setAttribute("aria-expanded", "false");
    this.#point(-1);
  }

  #later() {
    clearTimeout(this.#timer);
    this.#asked?.abort();
    if (!this.input.value.trim()) return this.close();
    this.#timer = setTimeout(() => this.#fetch(this.input.value), PAUSE_MS);
  }

  async #fetch(prefix) {
    this.#asked = new AbortController();
    let found;
    try {
      found = await this.ask(prefix, this.#asked.signal);
    } catch {
      return; // Superseded, or the model cannot complete: typing goes on without help.
    }
    if (prefix !== this.input.value || document.activeElement !== this.input) return;
    if (found.length === 0) return this.close();
    this.list.replaceChildren(...found.map((item, index) => this.#option(item.text, prefix, index)));
    this.list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    this.#point(-1);
  }

  #option(text, prefix, index) {
    const typed = text.startsWith(prefix.toLowerCase()) ? prefix.length : 0;
    return element(
      "li",
      {
        id: `completion-${index}`,
        role: "option",
        "aria-selected": "false",
        "data-text": text,
        onclick: () => this.onTake(text),
      },
      element("span", {}, text.slice(0, typed)),
      element("strong", {}, text.slice(typed)),
    );
  }

  #point(index) {
    this.list.children[this.#active]?.setAttribute("aria-selected", "false");
    this.#active = index;
    const option = this.list.children[index];
    option?.setAttribute("aria-selected", "true");
    option?.scrollIntoView({ block: "nearest" });
    if (option) this.input.setAttribute("aria-activedescendant", option.id);
    else this.input.removeAttribute("aria-activedescendant");
  }
}
