// Builds elements. Text only ever becomes a text node, so that no suggestion can be markup.

/** An element with properties (`class`, `data-*`, `aria-*`, listeners as `onclick`) and children. */
export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** A bar that is `share` (0 to 1) full. */
export function bar(share, label) {
  const fill = element("span", { class: "fill" });
  // The object model, not a style attribute: the content security policy allows no inline style.
  fill.style.setProperty("--share", String(Math.max(0, Math.min(1, share))));
  return element("span", { class: "bar", role: "img", "aria-label": label }, fill);
}
