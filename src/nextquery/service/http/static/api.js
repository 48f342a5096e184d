// The service's routes as functions. Knows HTTP and nothing of the page.

const KEY = "nextquery-key";

/** An answer other than the one asked for; `status` is 0 when the service was not reached. */
export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export function rememberKey(key) {
  sessionStorage.setItem(KEY, key);
}

async function call(method, path, body, signal) {
  const headers = {};
  const key = sessionStorage.getItem(KEY);
  if (key) headers["X-API-Key"] = key;
  if (body) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method, headers, body: body && JSON.stringify(body), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The service cannot be reached.");
  }
  if (response.status === 204) return null;
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new ApiError(response.status, answer.detail ?? "The request failed.");
  return answer;
}

export const models = () => call("GET", "/v1/models");

/** Suggestions for a session: its last query is the one just typed. */
export function suggest(queries, options, signal) {
  const context = queries.slice(0, -1);
  const query = queries.at(-1) ?? "";
  return call("POST", "/v1/suggest", { query, context, ...options }, signal);
}

export const complete = (context, prefix, model, signal) =>
  call("POST", "/v1/complete", { context, prefix, model, n: 6 }, signal);

export const explain = (context, model, signal) =>
  call("POST", "/v1/explain", { context, model }, signal);

export const feedback = (event) => call("POST", "/v1/feedback", event);
