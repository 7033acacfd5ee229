// The lines between the two columns of tokens, drawn on a canvas: there can be thousands.

import { themeColour } from "./dom.js";

export const FAINTEST = 0.02; // weights below this get no line: they would hide the others
const ROW = 24; // pixels, as in attention.css
const TALLEST = 16000; // pixels; browsers limit the height of a canvas

/**
 * Draw lines from tokens on the left to tokens on the right.
 *
 * `lines`: `[{from, to, weight}]`, weights from 0 to 1. `alone`: true for the lines of one token,
 * which are few and can be stronger.
 */
export function drawLines(canvas, tokens, lines, alone) {
  if (!canvas.isConnected) return;
  const width = canvas.clientWidth;
  const height = ROW * tokens;
  const ratio = Math.min(window.devicePixelRatio || 1, TALLEST / height);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.strokeStyle = themeColour("--accent");
  for (const { from, to, weight } of lines) {
    const [start, end] = [(from + 0.5) * ROW, (to + 0.5) * ROW];
    context.globalAlpha = alone ? 0.15 + 0.85 * weight ** 0.6 : 0.9 * weight;
    context.lineWidth = alone ? 1 + 3 * weight : 1.5;
    context.beginPath();
    context.moveTo(0, start);
    context.bezierCurveTo(width / 2, start, width / 2, end, width, end);
    context.stroke();
  }
}
