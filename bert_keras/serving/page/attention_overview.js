// All heads as small pictures: a row for each layer, a column for each head, both from 0.

import { roving } from "./controls.js";
import { make, themeColour } from "./dom.js";

const GAMMA = 0.55; // makes small weights visible
const FINEST = 36; // pixels of a picture; longer texts share pixels

/**
 * Make the overview. `chosen(layer, head)` is called when the reader picks a head.
 *
 * Returns `{element, select(layer, head), draw()}`; `draw` uses the colours of the theme.
 */
export function makeOverview(weights, chosen) {
  const cells = [];
  const grid = make("div", {
    class: "heads",
    role: "group",
    "aria-label": "All heads; the arrow keys move among them",
    style: { "--heads": weights.heads },
  });
  grid.append(make("span", { class: "corner", "aria-hidden": "true" }));
  for (let head = 0; head < weights.heads; head += 1) {
    grid.append(make("span", { class: "axis", "aria-hidden": "true", text: head }));
  }
  for (let layer = 0; layer < weights.layers; layer += 1) {
    grid.append(make("span", { class: "axis", "aria-hidden": "true", text: layer }));
    for (let head = 0; head < weights.heads; head += 1) {
      const canvas = make("canvas");
      const name = `Layer ${layer}, head ${head}`;
      const button = make(
        "button",
        {
          type: "button",
          class: "head-cell",
          "aria-label": name,
          title: name,
          on: { click: () => chosen(layer, head) },
        },
        canvas,
      );
      grid.append(button);
      cells.push({ button, canvas, layer, head });
    }
  }
  roving(
    cells.map((cell) => cell.button),
    weights.heads,
  );

  function draw() {
    const [red, green, blue] = themeColour("--accent").match(/\d+/g).map(Number);
    const count = weights.tokens.length;
    const size = Math.min(count, FINEST);
    // Colour of each of the 256 values, as the bytes of a pixel.
    const opacity = Uint8ClampedArray.from(
      { length: 256 },
      (_, value) => 255 * (value / 255) ** GAMMA,
    );
    for (const { canvas, layer, head } of cells) {
      canvas.width = size;
      canvas.height = size;
      const image = new ImageData(size, size);
      largest(weights.head(layer, head), count, size).forEach((value, index) => {
        image.data.set([red, green, blue, opacity[value]], 4 * index);
      });
      canvas.getContext("2d").putImageData(image, 0, 0);
    }
  }

  function select(layer, head) {
    for (const cell of cells) {
      const isChosen = cell.layer === layer && cell.head === head;
      cell.button.setAttribute("aria-pressed", isChosen);
      cell.button.tabIndex = isChosen ? 0 : -1;
    }
  }
  return { element: grid, draw, select };
}

/**
 * Return the picture [size, size] of weights [count, count]. A pixel has the largest of its weights:
 * a mean would hide thin lines, such as the diagonal of a head that reads the next token.
 */
function largest(weights, count, size) {
  if (size === count) return weights;
  const picture = new Uint8Array(size * size);
  for (let from = 0; from < count; from += 1) {
    const row = size * Math.floor((from * size) / count);
    for (let to = 0; to < count; to += 1) {
      const pixel = row + Math.floor((to * size) / count);
      picture[pixel] = Math.max(picture[pixel], weights[from * count + to]);
    }
  }
  return picture;
}
