"""Attention probabilities of every layer and head, as lines between tokens."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from keras import ops

from bert_keras import features
from bert_keras.config import BertConfig
from bert_keras.errors import UsageError
from bert_keras.models import encoder_for
from bert_keras.tokenizers import Tokenizer
from bert_keras.visualize import figures
from bert_keras.visualize.encoded_text import encode, tokenizer_of
from bert_keras.visualize.picture import Picture, ThemeName, document, escaped, palette_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_TOKENS = 128  # by default; lines between more tokens are too dense to read
MAX_VALUES = 20_000_000  # probabilities in a picture, a byte each in the HTML document

_BODY = """<main>
<h1>Attention</h1>
<p class="summary">{summary}</p>
{note}<form class="controls">
<label>Layer <select id="layer"></select></label>
<label>Head <select id="head"></select></label>
<label><input type="checkbox" id="special"> hide {special}</label>
</form>
<div class="panels">
<section aria-label="lines between tokens">
<p id="status" role="status"></p>
<div id="lines"><span class="side">from</span><span></span><span class="side">to</span>
<ol id="from"></ol><svg id="drawing" aria-hidden="true"></svg><ol id="to"></ol></div>
</section>
<section aria-label="all heads">
<p class="how">All layers (rows) and heads (columns). Layer 0 is the first, right after the
embeddings. Choose a small picture to see the lines of its head.</p>
<div id="overview"></div>
<p class="how">In a small picture, each row is a token, and each column a token that it attends to.
The arrow keys move among the pictures.</p>
</section>
</div>
<noscript><p>This picture needs JavaScript, which is in this file.</p></noscript>
</main>"""


@dataclasses.dataclass(frozen=True, repr=False)
class AttentionPicture(Picture):
    """Attention probabilities of a text.

    Attributes:
        tokens: the tokens, as in the vocabulary.
        labels: the tokens as people read them. "##" marks one that continues a word.
        is_special: True for each token that the tokenizer added, such as [CLS].
        attentions: float32 [layers, heads, from, to]. The sum over the last axis is 1. A pruned
            head is NaN.
        layer: layer that the picture shows first. Layer 0 is the first of the encoder.
        head: head that the picture shows first, from 0; None for the mean of the heads.
        note: a sentence about tokens that were cut off; "" if there are none.
    """

    tokens: Sequence[str]
    labels: Sequence[str]
    is_special: Sequence[bool]
    attentions: np.ndarray
    layer: int
    head: int | None
    note: str = ""

    height = 720

    @property
    def summary(self) -> str:
        """Numbers of layers, heads and tokens as a line of text."""
        layers, heads, length, _ = self.attentions.shape
        return f"{layers} layers, {heads} heads each, {length} tokens"

    @property
    def is_pruned(self) -> np.ndarray:
        """True for each pruned head: bool [layers, heads]."""
        return np.asarray(np.isnan(self.attentions).any(axis=(2, 3)))

    @property
    def html(self) -> str:
        """The picture as one HTML document, which needs no other file and no network.

        It holds the square root of each probability as a byte. The rounding error of a probability
        p is at most 0.004 * sqrt(p) + 0.000004.
        """
        roots = np.sqrt(np.clip(np.nan_to_num(self.attentions), 0.0, 1.0))
        layers, heads, length, _ = self.attentions.shape
        special = dict.fromkeys(
            label for label, flag in zip(self.labels, self.is_special, strict=True) if flag
        )
        body = _BODY.format(
            summary=escaped(self.summary),
            special=escaped(" and ".join(special) or "special tokens"),
            note=f'<p class="note" role="note">{escaped(self.note)}</p>\n' if self.note else "",
        )
        data = {
            "tokens": list(self.labels),
            "special": list(map(bool, self.is_special)),
            "shape": [layers, heads, length],
            "pruned": self.is_pruned.tolist(),
            "layer": self.layer,
            "head": self.head,
            "roots": base64.b64encode(np.rint(255 * roots).astype(np.uint8).tobytes()).decode(),
        }
        return document("Attention", body, "attention", data)

    def figure(self, theme: ThemeName = "light") -> Figure:
        """Return the chosen layer and head as lines, beside small pictures of all heads.

        See `Picture.figure` for the theme.
        """
        palette = palette_of(theme)
        heads = self.attentions[self.layer]
        shown = np.nanmean(heads, axis=0) if self.head is None else heads[self.head]
        name = "mean of the heads" if self.head is None else f"head {self.head}"
        title = f"layer {self.layer}, {name}"
        chosen = self.layer, self.head
        return figures.attention_figure(
            self.labels, shown, self.attentions, chosen, title, self.note, palette
        )


def attention(
    model: Any,
    tokenizer: Tokenizer | None,
    text: str,
    pair: str | None = None,
    *,
    layer: int | None = None,
    head: int | None = None,
    max_length: int | None = None,
) -> AttentionPicture:
    """Return the attention probabilities of a text as a picture.

    Args:
        model: an encoder or a task.
        tokenizer: tokenizer of the model; None for the one that a task holds.
        text: the text.
        pair: a second text; None for a single text.
        layer: layer that the picture shows first. 0 is the first layer, -1 the last; None for the
            last.
        head: head that the picture shows first, from 0; None for the mean of the heads.
        max_length: maximum number of tokens. A longer text is cut off, and the picture says so.
            None for 128, or for the model's positions if they are fewer.

    Raises:
        TypeError: the model is neither an encoder nor a task, or a text is no string.
        ValueError: there is no tokenizer, or `layer`, `head` or `max_length` is out of range.
        UsageError: the picture has too many probabilities for a browser.
    """
    tokenizer = tokenizer_of(model, tokenizer)
    encoder = encoder_for(getattr(model, "task", model), tokenizer)  # of a Predictor
    config: BertConfig = encoder.config
    if max_length is None:
        max_length = min(MAX_TOKENS, config.max_positions)
    layer = _in_range("layer", -1 if layer is None else layer, config.num_layers)
    head = head if head is None else _in_range("head", head, config.num_heads)
    row = encode(encoder, tokenizer, text, pair, max_length, encoder.inputs)
    count = config.num_layers * config.num_heads * len(row.tokens) ** 2
    if count > MAX_VALUES:
        raise UsageError(
            f"A picture has at most {MAX_VALUES:,} probabilities (layers * heads * tokens * "
            f"tokens). Received: {count:,}, of {len(row.tokens):,} tokens. Pass a smaller "
            "`max_length`, or a shorter text."
        )
    outputs: Any = encoder.with_outputs(attentions=True)(row.inputs, training=False)
    probabilities = [
        ops.convert_to_numpy(ops.cast(values, "float32"))[0]
        for values in outputs[features.ATTENTIONS]
    ]
    attentions = _with_pruned_heads(probabilities, config)
    if head is not None and np.isnan(attentions[layer, head]).any():
        raise ValueError(
            f"Head {head} of layer {layer} is pruned. Pass another `head`, or None for the mean."
        )
    return AttentionPicture(
        tokens=row.tokens,
        labels=row.labels,
        is_special=row.is_special,
        attentions=attentions,
        layer=layer,
        head=head,
        note=row.note,
    )


def _with_pruned_heads(probabilities: Sequence[np.ndarray], config: BertConfig) -> np.ndarray:
    """Put each head at its number before pruning; a pruned head becomes NaN.

    Args:
        probabilities: those of each layer, float32 [heads that are left, from, to].
        config: the config of the encoder.

    Returns:
        float32 [layers, heads, from, to].
    """
    length = probabilities[0].shape[-1]
    shape = (config.num_layers, config.num_heads, length, length)
    whole = np.full(shape, np.nan, np.float32)
    for layer, values in enumerate(probabilities):
        whole[layer, config.heads_of_layer(layer)] = values
    return whole


def _in_range(name: str, number: int, count: int) -> int:
    """Return the number of a layer or head from 0; a negative number counts from the end.

    Raises:
        ValueError: there is no such layer or head.
    """
    is_integer = isinstance(number, int) and not isinstance(number, bool)
    if not is_integer or not -count <= number < count:
        raise ValueError(f"`{name}` must be from 0 to {count - 1}. Received: {name}={number!r}")
    return number % count
