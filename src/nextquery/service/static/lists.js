// The suggestions of one model, or of several side by side. Independent of the service.

import { bar, element } from "./elements.js";

/** The buttons that take a suggestion. */
const TAKE = "button[data-text]";

export class Lists {
  /** `onTake(text, column, position)` receives the suggestion that a person chose. */
  constructor(root, onTake) {
    this.root = root;
    this.onTake = onTake;
    /** `onBlock(text)`: while it is set, every suggestion has a button that blocks it. */
    this.onBlock = null;
    /** `onMeant(text)` receives the corrected text that a person chose. */
    this.onMeant = () => {};
    root.addEventListener("keydown", (event) => this.#move(event));
    root.addEventListener("pointerover", (event) => this.#mark(event.target));
    root.addEventListener("focusin", (event) => this.#mark(event.target));
    root.addEventListener("pointerleave", () => this.#mark(null));
  }

  /** Show columns of `{name, note, suggestions}`, or of `{name, problem}`. */
  show(columns) {
    this.root.classList.toggle("several", columns.length > 1);
    this.root.replaceChildren(...columns.map((column) => this.#column(column, columns.length > 1)));
  }

  /** Say under each suggestion of a column the reason for its position; `reasons`: lines by text. */
  explain(index, reasons) {
    for (const button of this.root.children[index]?.querySelectorAll(TAKE) ?? []) {
      const said = reasons.get(button.dataset.text);
      if (said) button.append(...said.map((line) => element("span", { class: "why" }, line)));
    }
  }

  busy(waiting) {
    this.root.classList.toggle("waiting", waiting);
    this.root.setAttribute("aria-busy", String(waiting));
  }

  /** Instead of lists: what is the matter, and a way to try again. */
  notice(problem, more, onRetry) {
    const retry = element("button", { type: "button", class: "retry", onclick: onRetry }, "Try again");
    const text = element("p", {}, element("strong", {}, problem), ` ${more}`);
    const first = !this.root.querySelector(".notice");
    this.root.classList.remove("several");
    this.root.replaceChildren(element("div", { class: "notice" }, text, retry));
    if (first) this.root.scrollIntoView({ block: "nearest" });
  }

  /** Move the focus into the first list; says whether there is anything to focus. */
  focus() {
    const first = this.root.querySelector(TAKE);
    first?.focus();
    return Boolean(first);
  }

  #column(column, titled) {
    const parts = [];
    if (titled) {
      const note = column.note ? element("small", {}, column.note) : null;
      parts.push(element("h3", {}, column.name, note));
    }
    if (column.corrected) parts.push(this.#meant(column.corrected.text));
    if (column.problem) parts.push(element("p", { class: "empty" }, column.problem));
    else if (column.suggestions.length === 0) {
      parts.push(element("p", { class: "empty" }, "Nothing to suggest here."));
    } else parts.push(...this.#groups(column));
    return element("div", { class: "column" }, ...parts);
  }

  /** For which text the list is; taking it searches for that. */
  #meant(text) {
    const take = element("button", { type: "button", class: "meant", onclick: () => this.onMeant(text) }, text);
    return element("p", { class: "group" }, "Did you mean ", take);
  }

  /** One list, or one under each heading where the service forms groups. Ranks stay those given. */
  #groups(column) {
    const scores = column.suggestions.map((item) => item.score);
    const best = Math.max(...scores);
    const logarithms = scores.some((score) => score < 0 || score > 1); // or likenesses, 0 to 1
    // The bar is relative to the best: of likelihoods, where scores are their logarithms.
    const share = ({ score }) => (logarithms ? Math.exp(score - best) : score / (best || 1));
    const groups = new Map();
    column.suggestions.forEach((item, index) => {
      const row = this.#row(item, column, index + 1, share(item));
      groups.set(item.group ?? "", [...(groups.get(item.group ?? "") ?? []), row]);
    });
    return [...groups].flatMap(([name, rows]) => {
      const label = `Suggestions of ${column.name}${name && `: ${name}`}`;
      const list = element("ol", { "aria-label": label }, ...rows);
      // The list carries the name for screen readers; a heading would need a level of its own.
      return name ? [element("p", { class: "group", "aria-hidden": "true" }, name), list] : [list];
    });
  }

  #row(item, column, position, share) {
    const seen = item.source.startsWith("seen");
    const button = element(
      "button",
      { type: "button", "data-text": item.text, onclick: () => this.onTake(item.text, column, position) },
      element("span", { class: "rank", "aria-hidden": "true" }, String(position)),
      element(
        "span",
        { class: "what" },
        element("span", { class: "text", dir: "auto" }, item.text),
        element("span", { class: `source ${seen ? "seen" : "made"}` }, origin(item.source)),
      ),
      element(
        "span",
        { class: "score" },
        bar(share, "relative to the best"),
        element("span", { class: "number" }, item.score.toFixed(2).replace("-", "−")),
      ),
    );
    return element("li", {}, button, this.#block(item.text));
  }

  #block(text) {
    if (!this.onBlock) return null;
    const properties = { type: "button", class: "block", "aria-label": `Block ${text}`, onclick: () => this.onBlock(text) };
    return element("button", properties, "Block");
  }

  #move(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const buttons = [...this.root.querySelectorAll(TAKE)];
    const at = buttons.indexOf(document.activeElement);
    if (!step || at < 0) return;
    event.preventDefault();
    if (at + step < 0) document.getElementById("search").focus();
    else buttons[Math.min(at + step, buttons.length - 1)].focus();
  }

  /** Mark the suggestion under the pointer wherever other models make it too. */
  #mark(target) {
    const text = target?.closest?.("button")?.dataset.text;
    for (const button of this.root.querySelectorAll(TAKE)) {
      button.classList.toggle("same", text !== undefined && button.dataset.text === text);
    }
  }
}

/** "seen in the log (3 times after ...)" as "seen 3 times after ..."; anything else as it is. */
function origin(source) {
  return source.replace(/^seen in the log \((.*)\)$/, "seen $1");
}
