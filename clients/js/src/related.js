// <nextquery-related>: "related searches" on a page of results, as links. Texts only ever become text nodes.

import { NextqueryClient, Session } from "./client.js";

function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

export class NextqueryRelated extends HTMLElement {
  /** Fields of every request (`model`, `diversity`, ...). */
  options = {};

  #client;
  #asked = null;

  static observedAttributes = ["query", "heading", "href", "n", "did-you-mean-label"];

  /** Made from the attributes unless the page gives one. */
  get client() {
    return (this.#client ??= new NextqueryClient({
      url: this.getAttribute("src") ?? "",
      key: this.getAttribute("key") ?? "",
      timeoutMs: +(this.getAttribute("timeout") ?? 2000),
      session: new Session(),
    }));
  }

  set client(client) {
    this.#client = client;
    this.#update();
  }

  connectedCallback() {
    this.#update();
  }

  disconnectedCallback() {
    this.#asked?.abort();
  }

  attributeChangedCallback() {
    this.#update();
  }

  /** Ask again; nothing is shown while there is nothing to show, or the service does not answer. */
  async #update() {
    this.#asked?.abort();
    const { signal } = (this.#asked = new AbortController());
    await null; // several attributes, and a client, change in one go
    const query = this.getAttribute("query") ?? "";
    if (signal.aborted || !this.isConnected) return;
    if (!query.trim()) return this.#show(query, { suggestions: [] });
    try {
      const answer = await this.client.suggest(query, { n: +(this.getAttribute("n") ?? 8), ...this.options, signal });
      if (!signal.aborted) this.#show(query, answer);
    } catch (error) {
      if (signal.aborted) return;
      this.#show(query, { suggestions: [] });
      this.dispatchEvent(new CustomEvent("nextquery-error", { detail: error }));
    }
  }

  #show(query, { suggestions, corrected, query_id: id }) {
    const heading = this.getAttribute("heading") ?? "Related searches";
    const links = suggestions.map(({ text }, index) => this.#link(text, { query, id, kind: "suggestions", position: index + 1 }));
    const parts = [];
    if (corrected) {
      const label = this.getAttribute("did-you-mean-label") ?? "Did you mean";
      parts.push(element("p", {}, `${label}: `, this.#link(corrected.text, { query, kind: "corrected", position: 1 })));
    }
    if (links.length) {
      if (heading) parts.push(element("h2", {}, heading));
      parts.push(element("ul", {}, ...links.map((link) => element("li", {}, link))));
    }
    const label = heading || (this.getAttribute("aria-label") ?? "Related searches");
    this.replaceChildren(...(parts.length ? [element("nav", { ariaLabel: label }, ...parts)] : []));
    const texts = suggestions.map(({ text }) => text);
    if (texts.length) this.#tell({ action: "shown", query, query_id: id, suggestions: texts });
  }

  /** A link to the search; the event comes first, and a page that searches by itself prevents the rest. */
  #link(text, { query, id, kind, position }) {
    const pattern = this.getAttribute("href") ?? "?q={query}";
    const address = new URL(pattern.replaceAll("{query}", encodeURIComponent(text)), document.baseURI);
    const link = element("a", {}, element("bdi", {}, text));
    if (["http:", "https:"].includes(address.protocol)) link.href = address.href;
    link.addEventListener("click", (event) => {
      if (kind === "suggestions") this.#tell({ action: "clicked", query, query_id: id, suggestion: text, position });
      const detail = { query: text, taken: { kind, text, position } };
      const search = new CustomEvent("nextquery-search", { detail, bubbles: true, cancelable: true });
      if (!this.dispatchEvent(search)) event.preventDefault();
    });
    return link;
  }

  #tell(event) {
    if (this.hasAttribute("feedback")) this.client.feedback(event);
  }
}

customElements.get("nextquery-related") ?? customElements.define("nextquery-related", NextqueryRelated);
