import type { PastSearch } from "./history.js";

/** A suggested query or a completion. */
export interface Suggestion {
  text: string;
  score: number;
  source: string;
  /** The heading it belongs under, where the service forms groups. */
  group?: string | null;
}

/** An earlier query of the visitor. */
export interface Again {
  text: string;
  /** P(it is the next query); none for completions. */
  probability?: number | null;
}

/** The text for which an answer is, where what was typed has a slip. */
export interface Corrected {
  text: string;
  changes: { typed: string; corrected: string }[];
}

export interface SuggestAnswer {
  suggestions: Suggestion[];
  corrected?: Corrected | null;
  /** The visitor's own earlier queries; only where the request had a history. */
  again?: Again[];
  model: string;
  fallback: boolean;
  query_id: string;
}

export interface CompleteAnswer {
  completions: Suggestion[];
  corrected?: Corrected | null;
  /** The visitor's own earlier queries that begin with the prefix; only where the request had a history. */
  again?: Again[];
  model: string;
}

/** Fields of a request; other fields of the service may be given, too. */
export interface RequestOptions {
  n?: number;
  model?: string;
  diversity?: number;
  /** false: answer for the text as typed. */
  correct?: boolean;
  context?: string[];
  session_id?: string;
  /** Earlier searches of the visitor, newest first; see `SearchHistory`. */
  history?: PastSearch[];
  /** The site's own pseudonym of a signed-in visitor, instead of a history. */
  user_id?: string;
  signal?: AbortSignal;
  [field: string]: unknown;
}

export type Feedback = { query: string; query_id: string; client_id?: string } & (
  | { action: "shown"; suggestions: string[] }
  | { action: "clicked"; suggestion: string; position: number }
  | { action: "dismissed" }
);

/** A visit under a pseudonym, in this tab only. It ends as on the server: when idle for too long. */
export class Session {
  constructor(settings?: { idleMinutes?: number });
  readonly id: string;
  /** The searches of this visit, oldest first. */
  readonly queries: string[];
  add(query: string): void;
  end(): void;
}

/** An answer other than the one asked for; `status` is 0 when there was none in time. */
export class NextqueryError extends Error {
  constructor(status: number, message: string, retryAfterMs?: number);
  status: number;
  retryAfterMs: number;
  /** Whether the same request may do later. */
  readonly temporary: boolean;
}

export class NextqueryClient {
  /** With `session: null` no pseudonym is sent: every call then names its own `context`. */
  constructor(settings?: { url?: string; key?: string; timeoutMs?: number; session?: Session | null });
  url: string;
  key: string;
  timeoutMs: number;
  session: Session | null;
  /** What may be searched next. The query joins the session. */
  suggest(query: string, options?: RequestOptions): Promise<SuggestAnswer>;
  /** How a half-typed query may end. */
  complete(prefix: string, options?: RequestOptions): Promise<CompleteAnswer>;
  /** What became of a list; gives whether the service recorded it. */
  feedback(event: Feedback): Promise<boolean>;
  /** Forget earlier failures: the next call goes out. */
  resume(): void;
  /** Any route: GET without a `value`, POST with one. */
  call<Answer = unknown>(
    path: string, value?: object, options?: { signal?: AbortSignal; retries?: number },
  ): Promise<Answer>;
}
