// The session as a row of chips, each with a bar for its weight. Independent of the service.

import { bar, element } from "./elements.js";

export class Chips {
  constructor(list, onRemove) {
    this.list = list;
    this.onRemove = onRemove;
  }

  /** Show the queries; weights come later, when the model has explained itself. */
  show(queries) {
    this.list.replaceChildren(...queries.map((query, index) => this.#chip(query, index)));
  }

  /**
   * Put a bar under each query; `weights` of `{update, share}` in the same order. A bar shows its
   * part of what all queries make up: a cautious model keeps much of its first state, and bars of
   * that whole would all be empty.
   */
  weigh(weights) {
    const total = weights.reduce((sum, weight) => sum + weight.share, 0);
    [...this.list.children].forEach((chip, index) => {
      const weight = weights[index];
      if (weight === undefined) return;
      const part = total > 0 ? weight.share / total : 0;
      const percent = Math.round(part * 100);
      const gauge = element(
        "span",
        { class: "gauge", title: `Update gate ${weight.update.toFixed(2)}` },
        bar(part, `counts ${percent} percent`),
        element("span", { class: "percent", "aria-hidden": "true" }, `${percent}%`),
      );
      chip.querySelector(".gauge")?.remove();
      chip.append(gauge);
    });
  }

  /** Move the focus to the chip at `index`, or the nearest one left; says whether there is one. */
  focus(index) {
    const buttons = this.list.querySelectorAll("button");
    const button = buttons[Math.min(index, buttons.length - 1)];
    button?.focus();
    return Boolean(button);
  }

  #chip(query, index) {
    const remove = element(
      "button",
      { type: "button", "aria-label": `Remove ${query}`, onclick: () => this.onRemove(index) },
      "×",
    );
    const face = element("span", { class: "face" }, element("span", { class: "text", dir: "auto" }, query), remove);
    return element("li", { class: "chip" }, face);
  }
}
