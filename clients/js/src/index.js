// Everything at once. Importing it defines <nextquery-box> and <nextquery-related>.

export { NextqueryBox } from "./box.js";
export { NextqueryRelated } from "./related.js";
export { SearchHistory } from "./history.js";
export { NextqueryClient, NextqueryError, Session } from "./client.js";
