// Entities, highlighted in their text, with a legend and a table.

import { make, scrollableTable } from "./dom.js";
import { codePoints, percent, stretches } from "./text.js";

const GOLDEN_ANGLE = 137.5; // degrees: neighbours in the list get hues far apart

export function showEntities(reply, values) {
  const { entities } = reply.answer;
  if (!entities.length) {
    return {
      summary: "No entities",
      element: make(
        "div",
        {},
        make("p", { class: "empty", text: "No entity was found in this text." }),
      ),
    };
  }
  const labels = [...new Set(entities.map((entity) => entity.label))];
  labels.sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  const hueOf = new Map(labels.map((label, index) => [label, (200 + index * GOLDEN_ANGLE) % 360]));
  const hidden = new Set();
  const text = make("p", { class: "marked", dir: "auto" });

  function draw() {
    const shown = entities.filter((entity) => !hidden.has(entity.label));
    text.replaceChildren(
      ...stretches(values.text, shown).map((part) =>
        part.mark ? mark(part.text, part.mark, hueOf.get(part.mark.label)) : part.text,
      ),
    );
  }

  const legend = make(
    "ul",
    { class: "legend", "aria-label": "Labels" },
    ...labels.map((label) => {
      const amount = entities.filter((entity) => entity.label === label).length;
      const button = make(
        "button",
        {
          type: "button",
          class: "entity-key",
          "aria-pressed": "true",
          title: "Click to hide or show these entities",
          style: { "--hue": hueOf.get(label) },
        },
        make("bdi", { text: label }),
        " ",
        make("span", { class: "amount", text: amount }),
      );
      button.addEventListener("click", () => {
        if (!hidden.delete(label)) hidden.add(label);
        button.setAttribute("aria-pressed", !hidden.has(label));
        draw();
      });
      return make("li", {}, button);
    }),
  );
  draw();
  const named = entities.map(({ text, label }) => `${text}, ${label}`);
  const noun = entities.length === 1 ? "entity" : "entities";
  return {
    summary: `${entities.length} ${noun}: ${named.join("; ")}`,
    element: make("div", {}, legend, text, table(entities, values.text)),
  };
}

function mark(text, entity, hue) {
  return make(
    "mark",
    {
      class: "entity",
      style: { "--hue": hue },
      title: `${entity.label}, ${percent(entity.score)}`,
    },
    make("bdi", { text }),
    make("span", { class: "entity-label", text: entity.label }),
  );
}

function table(entities, text) {
  const points = codePoints(text);
  const row = ({ label, start, end, score }) =>
    make(
      "tr",
      {},
      make("td", { dir: "auto", text: points.slice(start, end).join("") }),
      make("td", { dir: "auto", text: label }),
      make("td", { class: "number", text: percent(score) }),
      make("td", { class: "number", text: `${start}\u2013${end}` }),
    );
  return make(
    "details",
    { class: "more" },
    make("summary", { text: "As a table" }),
    scrollableTable(
      "Entities",
      [["Text"], ["Label"], ["Score", "number"], ["Characters", "number"]],
      entities.map(row),
    ),
  );
}
