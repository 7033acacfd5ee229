// The attention view: the tokens twice, with lines from each token to those that it attends to.

import { drawLines, FAINTEST } from "./attention_lines.js";
import { makeOverview } from "./attention_overview.js";
import { AttentionWeights, looksSpecial } from "./attention_weights.js";
import { chooser, roving } from "./controls.js";
import { make } from "./dom.js";
import { codePoints, count, percent } from "./text.js";

const LEAST = 0.01; // weights below this get no number
const NAMED = 5; // tokens in the sentence about a token
const MOST_TOKENS = 256; // limit of the server for this view
const WIDEST = 14; // characters of a token; longer ones are cut off

// The choices of the reader, which stay for the next text. Layers and heads count from 0.
const last = { layer: 0, head: 0, specials: true };

/** Return the element for a reply of the attention interface. */
export function showAttention(reply, model) {
  const weights = new AttentionWeights(reply);
  const { tokens } = weights;
  const isSpecial = tokens.map(looksSpecial);
  // The tokens whose lines are shown alone: `{side, index}`, or null for all lines.
  let pointed = null;
  let pinned = null;

  const canvas = make("canvas", { class: "lines", "aria-hidden": "true" });
  const sentence = make("p", { class: "reading", role: "status" });
  const columns = { from: column("from"), to: column("to") };
  const overview = makeOverview(weights, choose);
  const layers = numbers("Layer", weights.layers, (layer) => choose(layer, last.head));
  const heads = numbers("Head", weights.heads, (head) => choose(last.layer, head));
  const specials = make("input", { type: "checkbox" });
  specials.checked = last.specials;
  specials.addEventListener("change", () => {
    last.specials = specials.checked;
    draw();
  });

  function column(side) {
    const buttons = tokens.map((token, index) =>
      tokenButton(token, isSpecial[index], { side, index }),
    );
    roving(buttons);
    const name = side === "from" ? "From these tokens" : "To these tokens";
    const label = `${name}; the arrow keys move among them`;
    const element = make("div", { class: `column ${side}`, role: "group", "aria-label": label });
    element.append(...buttons);
    return { buttons, element };
  }

  function tokenButton(token, special, target) {
    const on = {
      pointerenter: () => point(target),
      pointerleave: () => point(null),
      focus: () => point(target),
      blur: () => point(null),
      click: () => pin(target),
      keydown: (event) => event.key === "Escape" && pin(null),
    };
    return make(
      "button",
      { type: "button", class: special ? "tok special" : "tok", title: token, on },
      make("bdi", { text: token }),
      make("span", { class: "weight" }),
    );
  }

  function point(target) {
    pointed = target;
    draw();
  }

  function pin(target) {
    pinned = isSame(target, pinned) ? null : target;
    draw();
  }

  function choose(layer, head) {
    last.layer = Math.min(layer, weights.layers - 1);
    last.head = Math.min(head, weights.heads - 1);
    layers.select.value = last.layer;
    heads.select.value = last.head;
    overview.select(last.layer, last.head);
    draw();
  }

  /** Return the weights of the lines at a token; 0 for those that are hidden. */
  function weightsAt({ side, index }) {
    const hides = (token) => !last.specials && isSpecial[token];
    const values = weights[side](last.layer, last.head, index);
    return values.map((value, other) => (hides(other) || hides(index) ? 0 : value));
  }

  function draw() {
    const target = pointed ?? pinned;
    const values = target ? weightsAt(target) : [];
    for (const [side, { buttons }] of Object.entries(columns)) {
      buttons.forEach((button, index) => {
        const here = { side, index };
        const weight = target && side !== target.side ? values[index] : 0;
        button.style.setProperty("--weight", weight.toFixed(3));
        button.lastChild.textContent = weight >= LEAST ? percent(weight) : "";
        button.classList.toggle("pointed", isSame(here, target));
        button.setAttribute("aria-pressed", isSame(here, pinned));
      });
    }
    const lines = drawCanvas();
    sentence.textContent = target ? describe(target, values) : help(lines);
  }

  function help(lines) {
    if (lines) return "Point at a token to see only its lines. Click it to keep them.";
    const least = percent(FAINTEST);
    return `Every weight here is below ${least}, so there are no lines. Point at a token to see its weights.`;
  }

  function describe({ side, index }, values) {
    // The isolates keep the direction of a token from changing that of the sentence.
    const quote = (token) => `\u201c\u2068${token}\u2069\u201d`;
    const best = values
      .map((value, other) => ({ value, token: tokens[other] }))
      .filter(({ value }) => value >= LEAST)
      .sort((a, b) => b.value - a.value)
      .slice(0, NAMED)
      .map(({ value, token }) => `${quote(token)} ${percent(value)}`);
    const verb = side === "from" ? "attends to" : "gets attention from";
    return `${quote(tokens[index])} ${verb} ${best.join(", ") || "no token with 1% or more"}`;
  }

  /** Draw the lines of the chosen token or of all; return how many there are. */
  function drawCanvas() {
    const target = pointed ?? pinned;
    const targets = target ? [target] : tokens.map((_, index) => ({ side: "from", index }));
    const lines = targets
      .flatMap((one) =>
        weightsAt(one).map((weight, other) =>
          one.side === "from"
            ? { from: one.index, to: other, weight }
            : { from: other, to: one.index, weight },
        ),
      )
      .filter(({ weight }) => weight >= FAINTEST);
    drawLines(canvas, tokens.length, lines, target !== null);
    return lines.length;
  }

  function onTheme() {
    if (!canvas.isConnected) {
      document.removeEventListener("themechange", onTheme);
      return;
    }
    overview.draw();
    drawCanvas();
  }
  document.addEventListener("themechange", onTheme);
  // The width of the canvas is known when it is in the page; it changes with the window.
  new ResizeObserver(drawCanvas).observe(canvas);
  overview.draw();
  choose(last.layer, last.head);

  const longest = Math.max(...tokens.map((token) => codePoints(token).length));
  // Room for the number beside a token.
  const width = `${Math.min(longest, WIDEST) + 6}ch`;
  return make(
    "div",
    { class: "attention", style: { "--tokens": tokens.length } },
    overviewSection(weights, overview, model),
    make(
      "section",
      { class: "head-view", "aria-label": "Lines of one head" },
      make(
        "div",
        { class: "row head-controls" },
        layers.element,
        heads.element,
        make("label", { class: "check" }, specials, "Show special tokens"),
      ),
      sentence,
      make(
        "div",
        { class: "columns", style: { "--longest": width } },
        columns.from.element,
        canvas,
        columns.to.element,
      ),
    ),
  );
}

function isSame(one, other) {
  return Boolean(one && other) && one.side === other.side && one.index === other.index;
}

function overviewSection(weights, overview, model) {
  const title = `${count(weights.layers, "layer")} with ${count(weights.heads, "head")} each`;
  const section = make(
    "section",
    { class: "overview", "aria-label": "All heads" },
    make("h2", { text: title }),
    overview.element,
    make("p", {
      class: "hint",
      text:
        "Each row is a layer, each square a head. Layer 0 is the first, right after the " +
        "embeddings. Choose a square to see the lines of its head.",
    }),
    make("p", {
      class: "hint",
      text: "In a square, each row is a token, and each column a token that it attends to.",
    }),
  );
  const most = Math.min(MOST_TOKENS, model.max_length ?? MOST_TOKENS);
  if (weights.tokens.length >= most) {
    const text = `This view has at most ${count(most, "token")}. The rest of a longer text is cut off.`;
    section.append(make("p", { class: "hint", text }));
  }
  return section;
}

function numbers(label, amount, changed) {
  const options = Array.from({ length: amount }, (_, index) => ({
    value: String(index),
    name: String(index),
  }));
  return chooser(label, options, "0", (chosen) => changed(Number(chosen)));
}
