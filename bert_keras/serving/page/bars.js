// Answers that are bars or numbers: labels with probabilities, choices, and regression.

import { make } from "./dom.js";
import { count, decimal, percent } from "./text.js";

const SHOWN = 8; // bars before "Show all"

/**
 * A list of bars. `items`: `[{name, value, shown, chosen, note}]`; `value` from 0 to 1 is the length
 * of the bar, `shown` the number beside it, `note` a word after the name. More than `most` bars are
 * behind a button.
 */
export function barList(items, { most = SHOWN } = {}) {
  const list = make("ol", { class: "bars" });
  const rows = items.map((item) => barRow(item));
  // One more bar takes no more room than a button.
  const first = rows.length > most + 1 ? most : rows.length;
  list.append(...rows.slice(0, first));
  if (first === rows.length) return list;
  const more = make("button", {
    type: "button",
    class: "small",
    text: `Show all ${rows.length.toLocaleString("en")}`,
  });
  more.addEventListener("click", () => {
    list.append(...rows.slice(first));
    more.remove();
    rows[first].tabIndex = -1;
    rows[first].focus();
  });
  return make("div", {}, list, more);
}

function barRow(item) {
  return make("li", { class: item.chosen ? "bar chosen" : "bar" }, ...barParts(item));
}

/** A bar as a button; `properties` are those of `make`. */
export function barButton(name, score, properties) {
  const parts = barParts({ name, value: score, shown: percent(score) });
  return make("button", { type: "button", class: "bar", ...properties }, ...parts);
}

function barParts({ name, value, shown, note }) {
  const width = `${100 * Math.min(1, Math.max(0, value))}%`;
  return [
    make(
      "span",
      { class: "bar-name", dir: "auto" },
      name,
      note ? make("span", { class: "hint", text: ` ${note}` }) : null,
    ),
    make("span", { class: "bar-value", text: shown }),
    make(
      "span",
      { class: "track", "aria-hidden": "true" },
      make("span", { class: "fill", style: { width } }),
    ),
  ];
}

/** Mark the chosen one of several buttons. */
export function markChosen(buttons, index) {
  buttons.forEach((button, place) => {
    button.classList.toggle("chosen", place === index);
    button.setAttribute("aria-pressed", place === index);
  });
}

/** The large line above an answer. */
export function headline(text, beside = null) {
  return make(
    "p",
    { class: "headline" },
    make("strong", { dir: "auto", text }),
    beside ? make("span", { class: "beside", text: beside }) : null,
  );
}

export function showLabels(reply) {
  const { labels, chosen } = reply.answer;
  const best = labels.find((item) => item.label === chosen[0]);
  const beside = chosen.length === 1 && best ? percent(best.score) : null;
  const title = chosen.length ? chosen.join(", ") : "No label fits";
  const items = labels.map(({ label, score }) => ({
    name: label,
    value: score,
    shown: percent(score),
    chosen: chosen.includes(label),
    note: chosen.length > 1 && chosen.includes(label) ? "chosen" : null,
  }));
  return {
    summary: beside ? `${title}, ${beside}` : title,
    element: make("div", {}, headline(title, beside), barList(items)),
  };
}

export function showChoices(reply, values) {
  const { index, text, scores } = reply.answer;
  const items = scores.map((score, place) => ({
    name: values.options[place],
    value: score,
    shown: percent(score),
    chosen: place === index,
  }));
  return {
    summary: `Option ${index + 1}: ${text}, ${percent(scores[index])}`,
    element: make(
      "div",
      {},
      make(
        "p",
        { class: "sentence", dir: "auto" },
        values.prompt,
        " ",
        make("mark", { class: "found", text }),
      ),
      barList(items, { most: scores.length }),
    ),
  };
}

export function showNumbers(reply) {
  const { scores } = reply.answer;
  const texts = scores.map((score) => decimal(score, 3));
  return {
    summary: texts.join(", "),
    element: make(
      "div",
      { class: "numbers" },
      ...texts.map((text, index) =>
        make(
          "p",
          { class: "headline" },
          make("strong", { class: "number", text }),
          scores.length > 1 ? make("span", { class: "beside", text: `output ${index + 1}` }) : null,
        ),
      ),
      scores.length > 1 ? make("p", { class: "hint", text: count(scores.length, "output") }) : null,
    ),
  };
}
