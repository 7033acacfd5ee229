// The attention view: the tokens twice, with lines from each token to the tokens that it reads.

import { makeOverview } from "./attention_overview.js";
import { AttentionWeights, looksSpecial } from "./attention_weights.js";
import { chooser, roving } from "./controls.js";
import { make, themeColour } from "./dom.js";
import { codePoints, count, percent } from "./text.js";

const ROW = 24; // pixels, as in attention.css
const FAINTEST = 0.02; // weights below this get no line: thousands of them would hide the others
const NAMED = 5; // tokens in the sentence about a token
const MOST_TOKENS = 256; // the server reads no more

const last = { layer: 0, head: 0, specials: true }; // kept from text to text

/** Return the element for a reply of the attention interface. */
export function showAttention(reply) {
  const weights = new AttentionWeights(reply);
  const { tokens } = weights;
  const isSpecial = tokens.map(looksSpecial);
  last.layer = Math.min(last.layer, weights.layers - 1);
  last.head = Math.min(last.head, weights.heads - 1);

  // The token whose lines are shown alone: `{side, index}`, or null for all lines.
  let pointed = null;
  let pinned = null;
  const canvas = make("canvas", { class: "lines", "aria-hidden": "true" });
  const sentence = make("p", { class: "reading", role: "status" });
  const columns = { from: column("from"), to: column("to") };
  const overview = makeOverview(weights, choose);
  const layers = numbers("Layer", weights.layers, last.layer, (layer) => choose(layer, last.head));
  const heads = numbers("Head", weights.heads, last.head, (head) => choose(last.layer, head));

  function column(side) {
    const buttons = tokens.map((token, index) => {
      const target = { side, index };
      const button = make(
        "button",
        {
          type: "button",
          class: isSpecial[index] ? "tok special" : "tok",
          title: token,
          "aria-pressed": "false",
          on: {
            pointerenter: () => point(target),
            pointerleave: () => point(null),
            focus: () => point(target),
            blur: () => point(null),
            click: () => pin(target),
            keydown: (event) => event.key === "Escape" && pin(null),
          },
        },
        make("bdi", { text: token }), make("span", { class: "weight" }),
      );
      return button;
    });
    roving(buttons);
    const name = side === "from" ? "Tokens that read" : "Tokens that are read";
    return { buttons, element: make("div", { class: `column ${side}`, role: "group", "aria-label": `${name}; the arrow keys move among them` }, ...buttons) };
  }

  function point(target) {
    pointed = target;
    draw();
  }

  function pin(target) {
    const same = target && pinned && target.side === pinned.side && target.index === pinned.index;
    pinned = same ? null : target;
    for (const side of ["from", "to"]) {
      columns[side].buttons.forEach((button, index) =>
        button.setAttribute("aria-pressed", pinned?.side === side && pinned.index === index));
    }
    draw();
  }

  function choose(layer, head) {
    Object.assign(last, { layer, head });
    layers.select.value = layer;
    heads.select.value = head;
    overview.select(layer, head);
    draw();
  }

  const hides = (index) => !last.specials && isSpecial[index];

  /** Return the weights of the lines at a token; 0 for those that are hidden. */
  function weightsAt({ side, index }) {
    const values = weights[side](last.layer, last.head, index);
    return values.map((value, other) => (hides(other) || hides(index) ? 0 : value));
  }

  function draw() {
    const target = pointed ?? pinned;
    const values = target ? weightsAt(target) : null;
    for (const side of ["from", "to"]) {
      columns[side].buttons.forEach((button, index) => {
        const weight = target && side !== target.side ? values[index] : 0;
        button.style.setProperty("--weight", weight.toFixed(3));
        button.lastChild.textContent = weight >= 0.01 ? percent(weight) : "";
        button.classList.toggle("pointed", Boolean(target) && side === target.side && index === target.index);
      });
    }
    sentence.textContent = target ? describe(target, values) : "Point at a token to see its lines alone. Click it to keep them.";
    drawLines(target, values);
  }

  function describe({ side, index }, values) {
    const best = values
      .map((value, other) => ({ value, token: tokens[other] }))
      .filter(({ value }) => value >= 0.01)
      .sort((a, b) => b.value - a.value)
      .slice(0, NAMED)
      .map(({ value, token }) => `\u2068${token}\u2069 ${percent(value)}`);
    const verb = side === "from" ? "reads" : "is read by";
    return `\u2068${tokens[index]}\u2069 ${verb} ${best.join(", ") || "no token with 1% or more"}`;
  }

  function drawLines(target, values) {
    if (!canvas.isConnected) return;
    const width = canvas.clientWidth;
    const height = ROW * tokens.length;
    // Browsers limit the height of a canvas.
    const ratio = Math.min(window.devicePixelRatio || 1, 16000 / height);
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.strokeStyle = themeColour("--accent");
    const line = (from, to, weight) => {
      if (weight < FAINTEST) return;
      const [start, end] = [(from + 0.5) * ROW, (to + 0.5) * ROW];
      // A single token has few lines, so that faint ones may be stronger.
      context.globalAlpha = target ? 0.15 + 0.85 * weight ** 0.6 : 0.9 * weight;
      context.lineWidth = target ? 1 + 3 * weight : 1.5;
      context.beginPath();
      context.moveTo(0, start);
      context.bezierCurveTo(width / 2, start, width / 2, end, width, end);
      context.stroke();
    };
    if (target) {
      values.forEach((weight, other) =>
        target.side === "from" ? line(target.index, other, weight) : line(other, target.index, weight));
    } else {
      tokens.forEach((_, from) => weightsAt({ side: "from", index: from }).forEach((weight, to) => line(from, to, weight)));
    }
  }

  const onTheme = () => {
    if (!canvas.isConnected) {
      document.removeEventListener("themechange", onTheme);
      return;
    }
    overview.draw();
    draw();
  };
  document.addEventListener("themechange", onTheme);
  // The width of the canvas is known when it is in the page; it changes with the window.
  new ResizeObserver(() => drawLines(pointed ?? pinned, pointed ?? pinned ? weightsAt(pointed ?? pinned) : null)).observe(canvas);

  const specials = make("input", { type: "checkbox", on: { change: () => {
    last.specials = specials.checked;
    draw();
  } } });
  specials.checked = last.specials;
  overview.draw();
  choose(last.layer, last.head);
  const longest = Math.max(...tokens.map((token) => codePoints(token).length));
  return make(
    "div", { class: "attention", style: { "--tokens": tokens.length } },
    make(
      "section", { class: "overview", "aria-label": "All heads" },
      make("h3", { text: `${count(weights.layers, "layer")} with ${count(weights.heads, "head")} each` }),
      overview.element,
      make("p", { class: "hint", text: "A row for each layer, a square for each head. In a square, each row is a token that reads, and each column a token that is read." }),
      tokens.length >= MOST_TOKENS ? make("p", { class: "hint", text: `This view reads at most ${MOST_TOKENS} tokens.` }) : null,
    ),
    make(
      "section", { class: "head-view", "aria-label": "Lines of one head" },
      make(
        "div", { class: "row head-controls" }, layers.element, heads.element,
        make("label", { class: "check" }, specials, "Special tokens"),
      ),
      sentence,
      make("div", { class: "columns", style: { "--longest": `${Math.min(longest, 14) + 6}ch` } }, columns.from.element, canvas, columns.to.element),
    ),
  );
}

function numbers(label, amount, value, changed) {
  const options = Array.from({ length: amount }, (_, index) => ({ value: String(index), name: String(index + 1) }));
  return chooser(label, options, String(value), (chosen) => changed(Number(chosen)));
}
