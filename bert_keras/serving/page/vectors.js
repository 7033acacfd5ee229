// Answers of models with vectors: a similarity, a ranking of lines, and the vector itself.

import { barList } from "./bars.js";
import { copyButton } from "./controls.js";
import { make, themeColour } from "./dom.js";
import { count, decimal, nonBlankLines } from "./text.js";

const SHOWN_LINES = 10;

export function showSimilarity(reply) {
  const { similarity } = reply.answer;
  const text = decimal(similarity, 3);
  // Most models compare by the cosine. A score outside its range gets no scale.
  const isCosine = Math.abs(similarity) <= 1.0001;
  return {
    summary: `Similarity ${text}`,
    element: make(
      "div",
      {},
      make(
        "p",
        { class: "headline" },
        make("strong", { class: "number", text }),
        make("span", { class: "beside", text: "similarity" }),
      ),
      isCosine ? scale(similarity) : null,
    ),
  };
}

/** A scale from -1 to 1 with a bar from 0 to the value. */
function scale(value) {
  const style = { left: `${50 + Math.min(0, 50 * value)}%`, width: `${50 * Math.abs(value)}%` };
  return make(
    "div",
    { class: "scale", "aria-hidden": "true" },
    make(
      "div",
      { class: "track" },
      make("span", { class: "fill", style }),
      make("span", { class: "zero" }),
    ),
    make(
      "div",
      { class: "ticks" },
      ...["\u22121 opposite", "0 unrelated", "1 the same"].map((text) => make("span", { text })),
    ),
  );
}

export function showSearch(reply, values) {
  const lines = nonBlankLines(values.lines);
  const { results } = reply;
  // If scores are above 1, which cosines are not, the bars are relative to the best score.
  const top = Math.max(1, ...results.map((result) => result.score));
  const items = results.map(({ index, score }, rank) => ({
    name: lines[index],
    value: score / top,
    shown: decimal(score, 3),
    chosen: rank === 0,
    note: `line ${index + 1}`,
  }));
  const best = results.length ? lines[results[0].index] : "";
  return {
    summary: results.length ? `Best of ${count(results.length, "line")}: ${best}` : "No lines",
    element: make("div", { class: "ranking" }, barList(items, { most: SHOWN_LINES })),
  };
}

export function showVector(reply) {
  const { vector } = reply.answer;
  const norm = Math.hypot(...vector);
  const numbers = [
    ["Size", vector.length.toLocaleString("en")],
    ["Norm", decimal(norm, 4)],
    ["Smallest", decimal(Math.min(...vector), 4)],
    ["Largest", decimal(Math.max(...vector), 4)],
  ];
  return {
    summary: `A vector of ${count(vector.length, "number")}, norm ${decimal(norm, 3)}`,
    element: make(
      "div",
      {},
      make(
        "dl",
        { class: "facts large" },
        ...numbers.map(([name, value]) =>
          make("div", {}, make("dt", { text: name }), make("dd", { class: "number", text: value })),
        ),
      ),
      strip(vector),
      make(
        "div",
        { class: "ticks strip-key" },
        make("span", { text: "negative" }),
        make("span", { text: "each column is one value" }),
        make("span", { text: "positive" }),
      ),
      make(
        "div",
        { class: "sentence-row" },
        make("code", {
          class: "first-values",
          text: `[${vector
            .slice(0, 6)
            .map((value) => value.toFixed(4))
            .join(", ")}${vector.length > 6 ? ", …" : ""}]`,
        }),
        copyButton("Copy vector", () => JSON.stringify(vector)),
      ),
    ),
  };
}

/** A picture of a vector: bars above the middle are positive values, bars below it negative ones. */
function strip(vector) {
  const canvas = make("canvas", {
    class: "strip",
    role: "img",
    "aria-label": `The ${vector.length} values of the vector as a strip`,
  });
  const draw = () => {
    if (!canvas.isConnected) {
      document.removeEventListener("themechange", draw);
      return;
    }
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    canvas.width = Math.max(1, Math.round(canvas.clientWidth * ratio));
    canvas.height = Math.max(1, Math.round(canvas.clientHeight * ratio));
    const context = canvas.getContext("2d");
    const most = Math.max(1e-12, ...vector.map(Math.abs));
    const width = canvas.width / vector.length;
    const middle = canvas.height / 2;
    const colours = [themeColour("--accent"), themeColour("--second")];
    vector.forEach((value, index) => {
      const height = (Math.abs(value) / most) * (middle - 1);
      context.fillStyle = colours[value < 0 ? 1 : 0];
      context.fillRect(
        index * width,
        value < 0 ? middle : middle - height,
        Math.max(1, width * 0.85),
        Math.max(1, height),
      );
    });
  };
  document.addEventListener("themechange", draw);
  // The width is known when the canvas is in the page; it changes with the window.
  new ResizeObserver(draw).observe(canvas);
  return canvas;
}
