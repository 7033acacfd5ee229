// The attention weights of a reply: uint8 values [layers, heads, from, to] in base64.

export class AttentionWeights {
  constructor({ tokens, layers, heads, attention }) {
    this.tokens = tokens;
    this.layers = layers;
    this.heads = heads;
    this.values = Uint8Array.from(atob(attention), (character) => character.charCodeAt(0));
    const expected = layers * heads * tokens.length * tokens.length;
    if (this.values.length !== expected) {
      throw new Error(
        `The server sent ${this.values.length} attention weights instead of ${expected}.`,
      );
    }
  }

  /** Return the weights of a head, 0 to 255, as a view [from, to] of the whole. */
  head(layer, head) {
    const size = this.tokens.length ** 2;
    const start = (layer * this.heads + head) * size;
    return this.values.subarray(start, start + size);
  }

  /** Return the weights, 0 to 1, from a token to all others. */
  from(layer, head, token) {
    const count = this.tokens.length;
    return Array.from(
      this.head(layer, head).subarray(token * count, (token + 1) * count),
      (value) => value / 255,
    );
  }

  /** Return the weights, 0 to 1, from all tokens to one. */
  to(layer, head, token) {
    const count = this.tokens.length;
    const weights = this.head(layer, head);
    return Array.from({ length: count }, (_, from) => weights[from * count + token] / 255);
  }
}

/**
 * Return whether a token looks like one that the tokenizer added: [CLS], [SEP], <s>.
 *
 * [UNK] and [MASK] stand for a part of the text, and are not special here.
 */
export function looksSpecial(token) {
  return /^(\[[A-Za-z0-9_]+\]|<[/a-z]+>)$/.test(token) && !/^[[<](unk|mask)[\]>]$/i.test(token);
}
