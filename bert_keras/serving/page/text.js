// Texts and numbers as people read them.

/** Return the code points of a text. The offsets of the server count code points, not UTF-16 units. */
export function codePoints(text) {
  return Array.from(text);
}

/** Return a probability as a percentage: "98.3%", "<0.1%". */
export function percent(score) {
  if (score > 0 && score < 0.001) return "<0.1%";
  if (score < 1 && score >= 0.9995) return ">99.9%";
  return `${(100 * score).toFixed(1)}%`;
}

/** Return a number with `digits` decimals, with the character "\u2212" as its minus sign. */
export function decimal(value, digits = 3) {
  return value.toFixed(digits).replace("-", "\u2212");
}

/** Return "1 token", "2 tokens", "1,000 tokens". */
export function count(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

/** Return the lines of a text that are not blank, without spaces around them. */
export function nonBlankLines(text) {
  return text
    .split(/\r\n|\r|\n/)
    .map((line) => line.trim())
    .filter(Boolean);
}

/**
 * Split a text into stretches, for marks in it.
 *
 * `marks`: `{start, end, …}` in code points. A mark that overlaps an earlier one, or lies outside
 * the text, is left out. Returns `[{text, mark}]`; `mark` is null between the marks.
 */
export function stretches(text, marks) {
  const points = codePoints(text);
  const parts = [];
  let position = 0;
  for (const mark of [...marks].sort((a, b) => a.start - b.start || b.end - a.end)) {
    if (mark.start < position || mark.end <= mark.start || mark.end > points.length) continue;
    if (mark.start > position) {
      parts.push({ text: points.slice(position, mark.start).join(""), mark: null });
    }
    parts.push({ text: points.slice(mark.start, mark.end).join(""), mark });
    position = mark.end;
  }
  if (position < points.length) parts.push({ text: points.slice(position).join(""), mark: null });
  return parts;
}

/**
 * Put a token between the texts before and after its mask; return `[before, token, after]`.
 *
 * WordPiece writes "##ing" for a piece that continues a word, so the space before it is removed.
 * SentencePiece writes "▁the" and byte-level BPE "Ġthe" for a piece with a space before it.
 */
export function joinToken(before, token, after) {
  if (token.startsWith("##") && token.length > 2) return [before.trimEnd(), token.slice(2), after];
  if (/^[\u2581\u0120]./u.test(token)) {
    const space = before === "" || /\s$/.test(before) ? "" : " ";
    return [before + space, token.slice(1), after];
  }
  return [before, token, after];
}
