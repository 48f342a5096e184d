import type { NextqueryClient, RequestOptions } from "./client.js";
import type { StaticClient } from "./static.js";

export class NextqueryRelated extends HTMLElement {
  /** Made from the attributes `src`, `key` and `timeout` unless the page gives one. */
  client: NextqueryClient | StaticClient;
  /** Fields of every request. */
  options: RequestOptions;
}

declare global {
  interface HTMLElementTagNameMap {
    "nextquery-related": NextqueryRelated;
  }
}
