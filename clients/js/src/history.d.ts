/** An earlier search of the visitor. */
export interface PastSearch {
  query: string;
  /** When it was last typed, in seconds since 1970. */
  time: number;
  count: number;
}

/** What this visitor searched for before, in `localStorage`; at most 200 queries. */
export class SearchHistory {
  constructor(options?: { days?: number });
  /** The searches that have not expired, newest first. */
  readonly entries: PastSearch[];
  /** The same without a search for `query` that was just made. */
  before(query: string): PastSearch[];
  add(query: string): void;
  remove(query: string): void;
  clear(): void;
}
