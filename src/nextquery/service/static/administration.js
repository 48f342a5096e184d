// Why a query is not suggested, and one click to block it. Needs an admin key, kept in its field only.

import { element } from "./elements.js";

/** `parts` are the elements of the form; `context()` gives the session. `onReady(block)` is told how to block a text
 * once the form is open and has a key, and null when it no longer is; `onBlocked()` follows a block. */
export function startAdministration({ form, query, key, block, answer, status }, context, { onReady, onBlocked }) {
  async function ask(path, options = {}) {
    status.textContent = "";
    const headers = { "X-Admin-Key": key.value, "Content-Type": "application/json" };
    const response = await fetch(path, { headers, signal: AbortSignal.timeout(10_000), ...options }).catch(() => null);
    if (!response) throw new Error("The service cannot be reached.");
    if (response.status === 404) throw new Error("This service has no admin key: there is nobody to ask.");
    const said = await response.json().catch(() => ({}));
    if (!response.ok) throw new Error(said.detail ?? "The request failed.");
    return said;
  }

  async function safely(act) {
    try {
      await act();
    } catch (error) {
      answer.replaceChildren();
      status.textContent = error.message;
    }
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    safely(async () => {
      const asked = new URLSearchParams([["query", query.value], ...context().map((text) => ["context", text])]);
      const said = await ask(`/admin/why?${asked}`);
      const rows = Object.entries(said).map(([name, diagnosis]) =>
        element("li", {}, element("strong", {}, name), ` ${verdict(diagnosis)}`));
      answer.replaceChildren(...rows);
    });
  });
  function blockText(text) {
    safely(async () => {
      const said = await ask("/admin/block", { method: "POST", body: JSON.stringify({ text }) });
      answer.replaceChildren();
      status.textContent = `“${said.text}” is blocked.`;
      onBlocked();
    });
  }

  block.addEventListener("click", () => form.reportValidity() && blockText(query.value));
  const details = form.closest("details");
  const tell = () => onReady(details.open && key.value ? blockText : null);
  details.addEventListener("toggle", tell);
  key.addEventListener("change", tell);
}

/** What one model says of the query, in a sentence. */
function verdict({ can_be_suggested: can, reason, rank, count, listed, min_users: least }) {
  const seen = count === null ? unseen(least) : `typed ${count === 1 ? "once" : `${count} times`}`;
  if (!can) return `cannot suggest it: ${reason} (${seen}).`;
  const position = rank === null ? `not among the first ${listed}` : `at place ${rank}`;
  return `can suggest it, here ${position} (${seen}).`;
}

/** Fewer people than K typed it: how many is not said, unless K is 1 and there is nobody. */
function unseen(least) {
  return least === 1 ? "nobody typed it" : `fewer than ${least} people typed it`;
}
