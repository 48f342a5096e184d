// <nextquery-box>: gives an <input> completions while typing and suggestions after a search.
// The WAI-ARIA combobox pattern in the light DOM; texts only ever become text nodes.

import { NextqueryClient, Session } from "./client.js";

const STYLE = `
:where(nextquery-box) { display: block; position: relative; }
:where(nextquery-box) > [role="listbox"] {
  position: absolute; inset: 100% 0 auto; margin-top: var(--nextquery-gap, 4px); z-index: var(--nextquery-layer, 10);
  max-height: var(--nextquery-height, 60vh); padding: var(--nextquery-padding, 4px); overflow: auto;
  color: var(--nextquery-ink, CanvasText); background: var(--nextquery-paper, Canvas);
  border: var(--nextquery-border, 1px solid GrayText); border-radius: var(--nextquery-radius, 8px);
  box-shadow: var(--nextquery-shadow, 0 6px 20px #0003); font: var(--nextquery-font, inherit); text-align: start;
}
:where(nextquery-box) > [hidden] { display: none; }
:where(nextquery-box) [role="option"] {
  padding: var(--nextquery-option-padding, 8px 12px); border-radius: var(--nextquery-option-radius, 5px);
  cursor: pointer; overflow-wrap: anywhere; white-space: pre-wrap;
}
:where(nextquery-box) [role="option"]:is(:hover, [aria-selected="true"]) {
  color: var(--nextquery-active-ink, HighlightText); background: var(--nextquery-active, Highlight);
}
:where(nextquery-box) [role="group"] > :first-child {
  padding: 8px 12px 2px; color: var(--nextquery-label, inherit); font-size: .8em;
}
:where(nextquery-box) > [role="status"] { position: absolute; inset: 0; overflow: hidden; clip-path: inset(50%); }
@media (pointer: coarse) { :where(nextquery-box) [role="option"] { min-height: 44px; align-content: center; } }
`;
let sheet; // A constructed sheet needs no 'unsafe-inline' in a content security policy.
let boxes = 0;

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  made.append(...children);
  return made;
}

export class NextqueryBox extends HTMLElement {
  /** Fields of every request (`model`, `context`, ...), or a function that gives them. */
  options = {};

  #client;
  #input;
  #list;
  #status;
  #listeners;
  #timer = 0;
  #asked = null;
  #found = null; // {kind: "completions" | "suggestions", query, id, items}
  #active = -1;
  #taken = null;

  /** Made from the attributes unless the page gives one. */
  get client() {
    return (this.#client ??= new NextqueryClient({
      url: this.#attribute("src", ""),
      key: this.#attribute("key", ""),
      timeoutMs: +this.#attribute("timeout", 1000),
      session: new Session({ idleMinutes: +this.#attribute("idle-minutes", 30) }),
    }));
  }

  set client(client) {
    this.#client = client;
  }

  get open() {
    return this.#list?.hidden === false;
  }

  connectedCallback() {
    const input = (this.#input = this.querySelector("input"));
    if (!input) throw new Error("<nextquery-box> needs an <input> inside");
    const id = `${(input.id ||= `nextquery-${(boxes += 1)}`)}-list`;
    this.#list = element("div", { role: "listbox", id, "aria-label": this.#attribute("label", "Suggestions") });
    this.#list.hidden = true;
    this.#status = element("span", { role: "status" });
    this.append(this.#list, this.#status);
    input.role = "combobox";
    input.ariaAutoComplete = "list";
    input.ariaExpanded = "false";
    input.autocomplete = "off";
    input.setAttribute("aria-controls", id);
    this.#adoptStyle();
    this.#listen();
    const query = this.#attribute("query", "");
    if (query.trim()) this.search(query);
  }

  disconnectedCallback() {
    this.close();
    this.#listeners.abort();
    this.#list.remove();
    this.#status.remove();
  }

  /** A search was made: ask what may come next, and show it as long as the input has the focus. */
  async search(query) {
    this.close();
    if (this.hasAttribute("completions-only")) return;
    const answer = await this.#ask((options) => this.client.suggest(query, options));
    if (!answer || ![query, ""].includes(this.#input.value)) return;
    this.#found = { kind: "suggestions", query, id: answer.query_id, items: answer.suggestions };
    this.#show();
  }

  close() {
    clearTimeout(this.#timer);
    this.#asked?.abort();
    this.#found = null;
    this.#hide();
  }

  #attribute(name, fallback) {
    return this.getAttribute(name) ?? fallback;
  }

  #adoptStyle() {
    if (!sheet) (sheet = new CSSStyleSheet()).replaceSync(STYLE);
    const root = this.getRootNode();
    if (!root.adoptedStyleSheets.includes(sheet)) root.adoptedStyleSheets.push(sheet);
  }

  #listen() {
    const { signal } = (this.#listeners = new AbortController());
    const on = (target, name, act) => target?.addEventListener(name, act, { signal });
    on(this.#input, "input", (event) => event.isComposing || this.#typed());
    on(this.#input, "compositionend", () => this.#typed());
    on(this.#input, "keydown", (event) => this.#key(event));
    on(this.#input, "focus", () => this.#show());
    on(this.#input, "click", () => this.#show());
    on(this.#input, "blur", () => this.#hide());
    on(this.#input.form, "submit", (event) => this.#searched(event));
    // The input must keep the focus while an option is pressed.
    on(this.#list, "pointerdown", (event) => event.preventDefault());
    on(this.#list, "click", (event) => {
      const index = [...this.#options].indexOf(event.target.closest('[role="option"]'));
      if (index >= 0) this.#take(index);
    });
  }

  #typed() {
    const typed = this.#input.value;
    const fits = ({ text }) => text.startsWith(typed.toLowerCase());
    // An older list stays only while it still continues what is typed.
    if (!typed.trim() || this.#found?.kind !== "completions" || !this.#found.items.every(fits)) this.close();
    clearTimeout(this.#timer);
    this.#asked?.abort();
    if (typed.trim()) this.#timer = setTimeout(() => this.#complete(typed), +this.#attribute("delay", 90));
  }

  async #complete(query) {
    const answer = await this.#ask((options) => this.client.complete(query, options));
    if (!answer || query !== this.#input.value) return;
    this.#hide();
    this.#found = { kind: "completions", query, items: answer.completions };
    this.#show();
  }

  /** The answer, or nothing: superseded, slow, away or refused. */
  async #ask(call) {
    this.#asked?.abort();
    const { signal } = (this.#asked = new AbortController());
    const more = typeof this.options === "function" ? this.options() : this.options;
    try {
      const answer = await call({ n: +this.#attribute("n", 6), ...more, signal });
      return signal.aborted ? null : answer;
    } catch (error) {
      if (signal.aborted) return null;
      this.close();
      this.dispatchEvent(new CustomEvent("nextquery-error", { detail: error }));
      return null;
    }
  }

  #show() {
    const { kind, query, id, items } = this.#found ?? {};
    if (this.open || !items?.length || this.getRootNode().activeElement !== this.#input) return;
    this.#list.replaceChildren(...this.#rows(items, kind === "completions" && query.toLowerCase()));
    this.#list.hidden = false;
    this.#input.ariaExpanded = "true";
    this.#status.textContent = `${items.length} ${this.#list.ariaLabel}`;
    if (id && !this.#found.told) this.#tell("shown", { suggestions: this.#found.items.map(({ text }) => text) });
    this.#found.told = true;
  }

  #hide() {
    if (!this.open) return;
    this.#point(-1);
    this.#list.hidden = true;
    this.#list.replaceChildren();
    this.#input.ariaExpanded = "false";
    this.#status.textContent = "";
  }

  /** Options, under the heading of their group where the service names one. */
  #rows(items, prefix) {
    const groups = Object.entries(Object.groupBy(items, ({ group }) => group ?? ""));
    this.#found.items = groups.flatMap(([, members]) => members);
    let count = 0;
    return groups.flatMap(([name, members]) => {
      const options = members.map(({ text }) => {
        const attributes = { role: "option", id: `${this.#list.id}-${count++}`, "aria-selected": false };
        const fits = prefix && text.startsWith(prefix);
        const parts = fits ? [prefix, element("b", {}, text.slice(prefix.length))] : [text];
        return element("div", attributes, element("bdi", {}, ...parts));
      });
      if (!name) return options;
      return element("div", { role: "group", "aria-label": name }, element("div", { "aria-hidden": true }, name), ...options);
    });
  }

  get #options() {
    return this.#list.querySelectorAll('[role="option"]');
  }

  #point(index) {
    const options = this.#options;
    options[this.#active]?.setAttribute("aria-selected", "false");
    this.#active = index;
    const option = options[index];
    if (!option) return this.#input.removeAttribute("aria-activedescendant");
    option.ariaSelected = "true";
    option.scrollIntoView({ block: "nearest" });
    this.#input.setAttribute("aria-activedescendant", option.id);
  }

  #key(event) {
    if (event.isComposing || event.keyCode === 229 || event.ctrlKey || event.metaKey) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) this.#show();
    if (!this.open) return;
    // Past either end nothing is chosen, and the keys go on from the other one.
    const places = this.#options.length + 1;
    if (step) this.#point(((this.#active + 1 + step + places) % places) - 1);
    else if (event.key === "Escape") this.#tell("dismissed"), this.close();
    else if (event.key === "Enter" && this.#active >= 0) this.#take(this.#active);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #take(index) {
    const { text } = this.#found.items[index];
    this.#tell("clicked", { suggestion: text, position: index + 1 });
    this.#taken = { kind: this.#found.kind, text, position: index + 1 };
    this.#input.value = text;
    if (this.#input.form) this.#input.form.requestSubmit();
    else this.#searched();
  }

  async #searched(event) {
    const query = this.#input.value;
    const detail = { query, taken: this.#taken };
    this.#taken = null;
    this.close();
    if (!query.trim()) return;
    this.dispatchEvent(new CustomEvent("nextquery-search", { detail, bubbles: true }));
    await new Promise((done) => setTimeout(done)); // every listener has its say
    if (!event || event.defaultPrevented) this.search(query);
    else this.client.session?.add(query); // the next page asks
  }

  #tell(action, more) {
    const { kind, query, id } = this.#found;
    if (kind !== "suggestions" || !this.hasAttribute("feedback")) return;
    this.client.feedback({ action, query, query_id: id, ...more });
  }
}

customElements.get("nextquery-box") ?? customElements.define("nextquery-box", NextqueryBox);
