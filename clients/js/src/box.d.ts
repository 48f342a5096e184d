import type { NextqueryClient, NextqueryError, RequestOptions } from "./client.js";
import type { SearchHistory } from "./history.js";
import type { StaticClient } from "./static.js";

/** The detail of the event `nextquery-search`. */
export interface BoxSearch {
  query: string;
  /** The row that was taken, or null for a query that was typed to its end. */
  taken: { kind: "completions" | "suggestions" | "again" | "corrected"; text: string; position: number } | null;
}

export class NextqueryBox extends HTMLElement {
  /** Made from the attributes `src`, `key`, `timeout` and `idle-minutes` unless the page gives one. */
  client: NextqueryClient | StaticClient;
  /** Fields of every request, or a function that gives them. */
  options: RequestOptions | (() => RequestOptions);
  readonly open: boolean;
  /** What the visitor searched for before, where the attribute `history` is set and it has been loaded. */
  readonly history: SearchHistory | null;
  /** A search was made: ask what may come next, and show it as long as the input has the focus. */
  search(query: string): Promise<void>;
  close(): void;
}

declare global {
  interface HTMLElementTagNameMap {
    "nextquery-box": NextqueryBox;
  }
  interface HTMLElementEventMap {
    "nextquery-search": CustomEvent<BoxSearch>;
    "nextquery-error": CustomEvent<NextqueryError>;
  }
}
