import type { CompleteAnswer, RequestOptions, Session, SuggestAnswer } from "./client.js";

/** A query as the export has it: as `normalise_query` of the Python package. */
export function normaliseQuery(text: string): string;

/** Reads what `nextquery export MODEL --to static` wrote; replaces `NextqueryClient`. */
export class StaticClient {
  constructor(settings?: { url?: string; timeoutMs?: number; session?: Session | null });
  url: string;
  timeoutMs: number;
  session: Session | null;
  suggest(query: string, options?: RequestOptions): Promise<SuggestAnswer>;
  complete(): Promise<CompleteAnswer>;
  feedback(): Promise<boolean>;
  resume(): void;
}
