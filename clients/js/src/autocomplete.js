// A source for Algolia's autocomplete (@algolia/autocomplete-js): completions while typing, and
// suggestions after the visit's last search while the box is empty. An error gives no items.

/** A plugin: `autocomplete({plugins: [createNextqueryPlugin({client})], ...})`. */
export function createNextqueryPlugin({
  client,
  n = 6,
  feedback = false,
  sourceId = "nextquery",
  transformSource = ({ source }) => source,
}) {
  let asked = null;

  async function suggestions(query, signal) {
    const answer = await client.suggest(query, { n, signal });
    const list = { query, query_id: answer.query_id };
    const texts = answer.suggestions.map(({ text }) => text);
    if (feedback && texts.length) client.feedback({ action: "shown", ...list, suggestions: texts });
    // A row has its list: another may have been asked for by the time it is taken.
    return answer.suggestions.map((item, index) => ({ ...item, list: { ...list, position: index + 1 } }));
  }

  async function items(typed) {
    asked?.abort();
    const { signal } = (asked = new AbortController());
    const last = client.session?.queries.at(-1);
    try {
      if (typed) return (await client.complete(typed, { n, signal })).completions;
      return last ? await suggestions(last, signal) : [];
    } catch {
      return [];
    }
  }

  const source = (typed) => ({
    sourceId,
    getItemInputValue: ({ item }) => item.text,
    getItems: () => items(typed),
    onSelect({ item }) {
      client.session?.add(item.text);
      if (feedback && item.list) client.feedback({ action: "clicked", ...item.list, suggestion: item.text });
    },
    templates: {
      // A child of a virtual node, never markup.
      item: ({ item, createElement, Fragment }) => createElement(Fragment, {}, item.text),
    },
  });

  return {
    name: "nextquery",
    getSources: ({ query }) => [transformSource({ source: source(query) })],
    onSubmit({ state }) {
      if (state.query) client.session?.add(state.query);
    },
  };
}
