// Elements of the page. All text becomes a text node, so that no label, token or text of a reader
// is ever read as HTML.

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

let lastId = 0;

/** Return an id that no other element has. */
export function newId(name) {
  lastId += 1;
  return `${name}-${lastId}`;
}

/** Say a message to screen readers. */
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
