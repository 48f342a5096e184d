// The reasons for a suggestion and its position, in words. Independent of the service.

const COUNT = new Intl.NumberFormat("en", { maximumSignificantDigits: 2 });

/**
 * `log P(q | session)` and `log P(q | no session)` as a sentence: how likely the query is here, and
 * what the session adds. A list that is not ranked by the difference has no likelihoods (null).
 */
export function reason(inSession, alone) {
  if (inSession === null || alone === null) return "ranked by likelihood alone";
  const likely = `${odds(Math.exp(inSession))} here`;
  return `${likely}; ${lift(Math.exp(inSession - alone))}`;
}

/** Why the guard lets a suggestion pass, where `users` people must have typed what is shown. */
export function passed(source, users) {
  if (!(users > 1)) return "guard: nothing blocked in it";
  if (source.startsWith("synthetic")) return `guard: new, of words and pairs that ${users} or more people typed`;
  return `guard: ${users} or more people typed it`;
}

function odds(probability) {
  return probability > 0.1 ? `${Math.round(probability * 100)}% likely` : `1 in ${COUNT.format(1 / probability)}`;
}

function lift(times) {
  if (times >= 1.25) return `the session makes it ${COUNT.format(times)} times likelier`;
  if (times > 0.8) return "as likely as after anything";
  return `${COUNT.format(1 / times)} times likelier without this session`;
}
