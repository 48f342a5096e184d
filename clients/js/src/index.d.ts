export { NextqueryBox } from "./box.js";
export type { BoxSearch } from "./box.js";
export { NextqueryClient, NextqueryError, Session } from "./client.js";
export type { CompleteAnswer, Feedback, RequestOptions, SuggestAnswer, Suggestion } from "./client.js";
