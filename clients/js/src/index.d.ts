export { NextqueryBox } from "./box.js";
export type { BoxSearch } from "./box.js";
export { NextqueryRelated } from "./related.js";
export { SearchHistory } from "./history.js";
export type { PastSearch } from "./history.js";
export { NextqueryClient, NextqueryError, Session } from "./client.js";
export type { CompleteAnswer, Corrected, Feedback, RequestOptions, SuggestAnswer, Suggestion } from "./client.js";
