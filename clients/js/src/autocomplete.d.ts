import type { NextqueryClient } from "./client.js";

export interface NextqueryPluginSettings<Source = unknown> {
  client: NextqueryClient;
  /** How many rows at most. */
  n?: number;
  /** Whether to say what was shown and taken. */
  feedback?: boolean;
  sourceId?: string;
  /** Change the source: templates, `getItemUrl`, ... */
  transformSource?: (given: { source: Source }) => Source;
}

/** A plugin for `autocomplete({plugins: [...]})` of `@algolia/autocomplete-js`. */
export function createNextqueryPlugin(settings: NextqueryPluginSettings<any>): any;
