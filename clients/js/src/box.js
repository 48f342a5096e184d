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
:where(nextquery-box) [data-own]::before {
  content: ""; display: inline-block; box-sizing: border-box; width: 1em; height: 1em; margin-inline-end: .6em;
  vertical-align: -.1em; border: 1.5px solid; border-radius: 50%;
  background: linear-gradient(currentColor 0 0) 50% 20% / 1.5px 45% no-repeat,
    linear-gradient(currentColor 0 0) 80% 55% / 40% 1.5px no-repeat;
}
:where(nextquery-box) [role="group"] > :first-child::first-letter { text-transform: uppercase; }
:where(nextquery-box) [data-clears] { margin-top: 4px; border-top: 1px solid #8885; border-radius: 0; font-size: .8em; }
:where(nextquery-box) [data-remove] { float: inline-end; padding-inline: .6em; opacity: .7; }
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
  #history;
  #loading;
  #input;
  #list;
  #status;
  #listeners;
  #timer = 0;
  #asked = null;
  #found = null; // {kind: "completions" | "suggestions", query, id, items}
  #active = -1;
  #taken = null;
  #preset = null;

  /** Made from the attributes unless the page gives one. */
  get client() {
    return (this.#client ??= new NextqueryClient({
      url: this.#attribute("src", ""),
      key: this.#attribute("key", ""),
      timeoutMs: +this.#attribute("timeout", 1000),
      session: new Session({ idleMinutes: +this.#attribute("idle-minutes", 30) }),
    }));
  }

  /** A page may give its client after the box has begun: what the page answers is then asked again. */
  set client(client) {
    this.#client = client;
    if (this.isConnected) this.#searchPreset();
  }

  /** What the visitor searched for before, where the attribute `history` is set and it has been loaded. */
  get history() {
    return (this.hasAttribute("history") && this.#history) || null;
  }

  get open() {
    return this.#list?.hidden === false;
  }

  static observedAttributes = ["history", "query"];

  attributeChangedCallback(name) {
    if (name === "query" && this.#list) this.#searchPreset();
    if (!this.hasAttribute("history") || this.#loading) return;
    const keep = ({ SearchHistory }) => (this.#history = new SearchHistory({ days: +this.#attribute("history-days", 90) }));
    this.#loading = import("./history.js").then(keep, () => {});
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
    this.#searchPreset();
  }

  /** Search for what the page answers, when its scripts have had the time to give a client. */
  async #searchPreset() {
    const preset = (this.#preset = {});
    await null;
    const query = this.#attribute("query", "");
    if (query.trim() && preset === this.#preset && this.isConnected) this.search(query);
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
    if (this.#loading) await this.#loading;
    this.history?.add(query);
    if (this.hasAttribute("completions-only")) return;
    const answer = await this.#ask((options) => this.client.suggest(query, options), query);
    if (!answer || ![query, ""].includes(this.#input.value)) return;
    const meant = answer.corrected && {
      text: answer.corrected.text,
      group: this.#attribute("did-you-mean-label", "Did you mean"),
      meant: true,
    };
    const items = [...(meant ? [meant] : []), ...answer.suggestions, ...this.#own(answer, this.#attribute("again-label", "Searched before"))];
    this.#found = { kind: "suggestions", query, id: answer.query_id, items };
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
      if (event.target.closest("[data-remove]")) this.#forget(this.#found.items[index].text);
      else if (index >= 0) this.#take(index);
    });
  }

  #typed() {
    const typed = this.#input.value;
    const fits = ({ text, clears }) => clears || text.startsWith(typed.toLowerCase());
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
    const own = this.#own(answer); // first, with the row that clears them last
    const typed = query.trim().replace(/\s+/g, " ").toLowerCase();
    const others = answer.completions.filter(({ text }) => text !== typed && !own.some((row) => row.text === text));
    const items = [...own.filter((row) => row.own), ...others, ...own.filter((row) => row.clears)];
    this.#found = { kind: "completions", query, items };
    this.#show();
  }

  /** The answer, or nothing: superseded, slow, away or refused. */
  async #ask(call, query = "") {
    this.#asked?.abort();
    const { signal } = (this.#asked = new AbortController());
    const more = typeof this.options === "function" ? this.options() : this.options;
    try {
      const past = this.history && { history: this.history.before(query) };
      const answer = await call({ n: +this.#attribute("n", 6), ...past, ...more, signal });
      return signal.aborted ? null : answer;
    } catch (error) {
      if (signal.aborted) return null;
      this.close();
      this.dispatchEvent(new CustomEvent("nextquery-error", { detail: error }));
      return null;
    }
  }

  /** Rows of the visitor's own earlier queries, and one that clears them where the box keeps them. */
  #own({ again = [] }, group) {
    const rows = again.map(({ text }) => ({ text, group, own: true }));
    const clears = { text: this.#attribute("clear-label", "Clear history"), group, clears: true };
    return rows.length && this.history ? [...rows, clears] : rows;
  }

  /** Forget one of the visitor's queries, or all without one, and show what remains. */
  #forget(query) {
    if (query) this.history?.remove(query);
    else this.history?.clear();
    const found = this.#found;
    const stays = ({ text, own, clears }) => !clears && (!own || (query && text !== query));
    const left = found.items.filter(stays);
    found.items = left.some(({ own }) => own) ? [...left, ...found.items.filter(({ clears }) => clears)] : left;
    this.#hide();
    this.#show();
  }

  #show() {
    const { kind, query, id, items } = this.#found ?? {};
    if (this.open || !items?.length || this.getRootNode().activeElement !== this.#input) return;
    this.#list.replaceChildren(...this.#rows(items, kind === "completions" && query.toLowerCase()));
    this.#list.hidden = false;
    this.#input.ariaExpanded = "true";
    this.#status.textContent = `${items.filter(({ clears }) => !clears).length} ${this.#list.ariaLabel}`;
    const listed = this.#suggested;
    if (id && !this.#found.told) this.#tell("shown", { suggestions: listed.map(({ text }) => text) });
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

  /** The rows that are the service's suggestions, of which it is told. */
  get #suggested() {
    return this.#found.items.filter(({ own, clears, meant }) => !own && !clears && !meant);
  }

  /** The heading of a group, in the page's language; none with `headings="off"`. */
  #heading(group) {
    if (!group || this.getAttribute("headings") === "off") return "";
    return this.#attribute(`${group.replace(" ", "-")}-label`, group);
  }

  /** Options, under the heading of their group where the service names one. */
  #rows(items, prefix) {
    const groups = Object.entries(Object.groupBy(items, ({ group }) => group ?? ""));
    this.#found.items = groups.flatMap(([, members]) => members);
    let count = 0;
    return groups.flatMap(([name, members]) => {
      const options = members.map(({ text, own, clears }) => {
        const attributes = { role: "option", id: `${this.#list.id}-${count++}`, "aria-selected": false };
        const fits = prefix && !clears && text.startsWith(prefix);
        const parts = fits ? [prefix, element("b", {}, text.slice(prefix.length))] : [text];
        const option = element("div", attributes, element("bdi", {}, ...parts));
        if (own) option.dataset.own = "";
        if (clears) option.dataset.clears = "";
        if (own && this.history) {
          const title = this.#attribute("remove-label", "Remove from history (Delete)");
          option.append(element("span", { "data-remove": "", "aria-hidden": true, title }, "\u00d7"));
        }
        return option;
      });
      const heading = this.#heading(name);
      if (!heading) return options;
      return element("div", { role: "group", "aria-label": heading }, element("div", { "aria-hidden": true }, heading), ...options);
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
    // Past either end nothing is chosen, and the keys continue from the other one.
    const places = this.#options.length + 1;
    if (step) this.#point(((this.#active + 1 + step + places) % places) - 1);
    else if (event.key === "Escape") this.#tell("dismissed"), this.close();
    else if (event.key === "Enter" && this.#active >= 0) this.#take(this.#active);
    else if (event.key === "Delete" && this.history && this.#found.items[this.#active]?.own)
      this.#forget(this.#found.items[this.#active].text);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #take(index) {
    const { text, own, clears, meant } = this.#found.items[index];
    if (clears) return this.#forget();
    // The service records nothing of what the visitor typed before, nor of its corrections.
    const position = this.#suggested.indexOf(this.#found.items[index]) + 1;
    if (!own && !meant) this.#tell("clicked", { suggestion: text, position });
    const kind = own ? "again" : meant ? "corrected" : this.#found.kind;
    this.#taken = { kind, text, position: position || index + 1 };
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
    else this.client.session?.add(query), this.history?.add(query); // the next page asks
  }

  #tell(action, more) {
    const { kind, query, id } = this.#found;
    if (kind !== "suggestions" || !this.hasAttribute("feedback")) return;
    this.client.feedback({ action, query, query_id: id, ...more });
  }
}

customElements.get("nextquery-box") ?? customElements.define("nextquery-box", NextqueryBox);
