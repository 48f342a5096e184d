// Everything at once. Importing it defines <nextquery-box>.

export { NextqueryBox } from "./box.js";
export { SearchHistory } from "./history.js";
export { NextqueryClient, NextqueryError, Session } from "./client.js";
