// Elements of the page. All text becomes a text node, so that no label, token or text of a reader
// is ever read as HTML.

import { stretches } from "./text.js";

/**
 * Make an element.
 *
 * `properties`: `class`, `text`, `on` ({event: function}), `style` ({CSS property: value}, set
 * through the CSSOM, which the content security policy allows), `true` for an attribute without a
 * value, and any other attribute by its name. `null`, `undefined` and `false` are left out.
 * `children`: nodes and strings; `null` and `false` are left out.
 */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") element.textContent = value;
    else if (name === "on") {
      for (const [event, listener] of Object.entries(value))
        element.addEventListener(event, listener);
    } else if (name === "style") {
      for (const [key, setting] of Object.entries(value)) element.style.setProperty(key, setting);
    } else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== false));
  return element;
}

/** Return a text as nodes, with a highlight on each of `marks`: `[{start, end}]` in code points. */
export function highlighted(text, marks) {
  return stretches(text, marks).map((part) =>
    part.mark ? make("mark", { class: "found", text: part.text }) : part.text,
  );
}

/**
 * Make a table that scrolls sideways on narrow screens.
 *
 * `columns`: `[[name, class]]` of the headings. `rows`: elements `tr`.
 */
export function scrollableTable(label, columns, rows) {
  const headings = columns.map(([name, kind]) =>
    make("th", { scope: "col", class: kind, text: name }),
  );
  return make(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    make(
      "table",
      {},
      make("thead", {}, make("tr", {}, ...headings)),
      make("tbody", {}, ...rows),
    ),
  );
}

let lastId = 0;

/** Return an id that no other element has. */
export function newId(name) {
  lastId += 1;
  return `${name}-${lastId}`;
}

/** Announce a message to screen readers. */
export function announce(message) {
  document.getElementById("status").textContent = message;
}

/** Return the colour that a CSS variable has in the current theme, as "rgb(…)". */
export function themeColour(variable) {
  const probe = make("span", { style: { color: `var(${variable})` } });
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}
