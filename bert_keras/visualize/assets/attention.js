"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const [LAYERS, HEADS, LENGTH] = data.shape;
const bytes = Uint8Array.from(atob(data.roots), (c) => c.charCodeAt(0));
const SQUARES = Float32Array.from({ length: 256 }, (_, b) => (b / 255) ** 2);
// A probability below this has no line, among the lines of all tokens or of one.
const FAINTEST = { all: 0.02, one: 0.005 };
const NAMED = 5; // tokens in the sentence about a token
// The isolates keep a token's direction of writing from changing that of the sentence.
const quoted = (token) => `\u201c\u2068${token}\u2069\u201d`;
const element = (id) => document.getElementById(id);
const make = (tag, values = {}) => Object.assign(document.createElement(tag), values);
const state = { layer: data.layer, head: data.head, hover: null, pinned: null };

// === Probabilities ===

const kept = (layer) => [...Array(HEADS).keys()].filter((head) => !data.pruned[layer][head]);

function probabilities(layer, head) {
  const heads = head === null ? kept(layer) : [head];
  const size = LENGTH * LENGTH, sum = new Float32Array(size);
  for (const h of heads) {
    const start = (layer * HEADS + h) * size;
    for (let i = 0; i < size; i++) sum[i] += SQUARES[bytes[start + i]] / heads.length;
  }
  return sum;
}

const hides = (place) => element("special").checked && data.special[place];

// === Lines ===

const row = LENGTH > 40 ? 19 : LENGTH > 24 ? 23 : 28;
const tokens = { from: [], to: [] };

function makeTokens(side) {
  data.tokens.forEach((token, place) => {
    const button = make("button", { type: "button", title: token });
    const word = make("span", { textContent: token }), number = make("small");
    button.append(...(side === "from" ? [number, word] : [word, number]));
    button.classList.toggle("special", data.special[place]);
    const choice = { side, place };
    button.onmouseenter = button.onfocus = () => { state.hover = choice; drawLines(); };
    button.onmouseleave = button.onblur = () => { state.hover = null; drawLines(); };
    button.onclick = () => {
      const same = state.pinned && state.pinned.side === side && state.pinned.place === place;
      state.pinned = same ? null : choice;
      drawLines();
    };
    const item = make("li");
    item.append(button);
    element(side).append(item);
    tokens[side].push({ button, number });
  });
}

function drawLines() {
  const values = probabilities(state.layer, state.head);
  const choice = state.hover || state.pinned;
  const svg = element("drawing"), width = svg.clientWidth || 160;
  svg.setAttribute("viewBox", `0 0 ${width} ${row * LENGTH}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("height", row * LENGTH);
  const shown = [], partners = [];
  for (let from = 0; from < LENGTH; from++) {
    for (let to = 0; to < LENGTH; to++) {
      if (choice && (choice.side === "from" ? from : to) !== choice.place) continue;
      if (hides(from) || hides(to)) continue;
      const value = values[from * LENGTH + to];
      if (choice) partners.push([choice.side === "from" ? to : from, value]);
      if (value >= (choice ? FAINTEST.one : FAINTEST.all)) shown.push([from, to, value]);
    }
  }
  const largest = Math.max(...partners.map(([, value]) => value), 1e-9);
  // Safe as HTML: the text has numbers only.
  svg.innerHTML = shown.map(([from, to, value]) => {
    const y1 = (from + 0.5) * row, y2 = (to + 0.5) * row, middle = width / 2;
    const strength = choice ? 0.12 + 0.88 * value / largest : 0.85 * value;
    return `<path d="M0 ${y1}C${middle} ${y1} ${middle} ${y2} ${width} ${y2}" ` +
      `stroke-opacity="${strength.toFixed(3)}" stroke-width="${(0.8 + 3 * value).toFixed(2)}"/>`;
  }).join("");
  markTokens(choice, partners);
  element("status").textContent = choice ? describe(choice, partners) : help(shown.length);
}

function markTokens(choice, partners) {
  for (const side of ["from", "to"]) {
    tokens[side].forEach(({ button, number }, place) => {
      const is = (other) => Boolean(other) && other.side === side && other.place === place;
      button.classList.toggle("on", is(choice));
      button.classList.toggle("pinned", is(state.pinned));
      button.setAttribute("aria-pressed", String(is(state.pinned)));
      button.parentElement.style.visibility = hides(place) ? "hidden" : "";
      number.textContent = "";
    });
  }
  for (const [place, value] of partners) {
    const other = choice.side === "from" ? "to" : "from";
    if (value >= FAINTEST.one) tokens[other][place].number.textContent = value.toFixed(2);
  }
}

function describe(choice, partners) {
  const best = partners.sort((a, b) => b[1] - a[1]).slice(0, NAMED)
    .map(([place, value]) => `${quoted(data.tokens[place])} ${value.toFixed(2)}`).join(", ");
  const verb = choice.side === "from" ? "attends to" : "gets attention from";
  return `${quoted(data.tokens[choice.place])} ${verb}: ${best || "no other token"}`;
}

function help(lines) {
  if (lines) return "Point at a token, or move to it with Tab, to see only its lines. A click keeps them.";
  return `Every probability here is below ${FAINTEST.all}, so there are no lines. Point at a token to see its largest ones.`;
}

// === All heads ===

const tiles = [];

function makeOverview() {
  const grid = element("overview");
  grid.style.gridTemplateColumns = `max-content repeat(${HEADS}, minmax(20px, 52px))`;
  grid.append(make("span", { className: "name" }));
  for (let head = 0; head < HEADS; head++) {
    grid.append(make("span", { className: "name", textContent: head }));
  }
  for (let layer = 0; layer < LAYERS; layer++) {
    grid.append(make("span", { className: "name", textContent: layer }));
    for (let head = 0; head < HEADS; head++) {
      const name = `Layer ${layer}, head ${head}`, pruned = data.pruned[layer][head];
      const button = make("button", { type: "button", title: pruned ? `${name}: pruned` : name });
      button.setAttribute("aria-label", button.title);
      button.disabled = pruned;
      const canvas = make("canvas", { width: LENGTH, height: LENGTH });
      button.append(canvas);
      button.onclick = () => choose(layer, head);
      button.onkeydown = (event) => move(event, layer, head);
      grid.append(button);
      tiles.push({ layer, head, button, canvas });
    }
  }
}

function move(event, layer, head) {
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const step = steps[event.key];
  if (!step) return;
  event.preventDefault();
  for (let l = layer + step[0], h = head + step[1]; ; l += step[0], h += step[1]) {
    if (l < 0 || h < 0 || l >= LAYERS || h >= HEADS) return;
    if (data.pruned[l][h]) continue;
    choose(l, h);
    tiles[l * HEADS + h].button.focus();
    return;
  }
}

function drawOverview() {
  const rgb = getComputedStyle(document.documentElement).getPropertyValue("--heat-rgb");
  const [red, green, blue] = rgb.split(",").map(Number);
  for (const { layer, head, button, canvas } of tiles) {
    if (button.disabled) continue;
    const context = canvas.getContext("2d"), image = context.createImageData(LENGTH, LENGTH);
    const start = (layer * HEADS + head) * LENGTH * LENGTH;
    for (let i = 0; i < LENGTH * LENGTH; i++) {
      const hidden = hides(i % LENGTH) || hides(Math.floor(i / LENGTH));
      image.data.set([red, green, blue, hidden ? 0 : bytes[start + i]], 4 * i);
    }
    context.putImageData(image, 0, 0);
  }
}

// === Choice of layer and head ===

function choose(layer, head) {
  state.layer = layer;
  const isPruned = head !== null && data.pruned[layer][head];
  state.head = isPruned ? null : head;
  element("layer").value = String(layer);
  const select = element("head");
  select.replaceChildren(make("option", { value: "", textContent: "mean of the heads" }));
  for (const h of kept(layer)) select.append(make("option", { value: h, textContent: h }));
  select.value = state.head === null ? "" : String(state.head);
  const focus = layer * HEADS + (state.head === null ? kept(layer)[0] : state.head);
  tiles.forEach(({ button, ...tile }, place) => {
    const chosen = tile.layer === layer && (state.head === null || tile.head === state.head);
    button.setAttribute("aria-pressed", String(chosen && !button.disabled));
    button.tabIndex = place === focus ? 0 : -1;
  });
  drawLines();
}

document.documentElement.style.setProperty("--row", `${row}px`);
document.documentElement.style.setProperty("--size", row < 23 ? "0.8rem" : "0.93rem");
makeTokens("from");
makeTokens("to");
makeOverview();
for (let layer = 0; layer < LAYERS; layer++) {
  element("layer").append(make("option", { value: layer, textContent: layer }));
}
element("layer").onchange = () => choose(Number(element("layer").value), state.head);
element("head").onchange = () => {
  const value = element("head").value;
  choose(state.layer, value === "" ? null : Number(value));
};
element("special").onchange = () => { drawLines(); drawOverview(); };
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawOverview);
addEventListener("resize", drawLines);
drawOverview();
choose(state.layer, state.head);
