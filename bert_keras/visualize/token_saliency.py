"""Gradient x input: how much each token speaks for a label of a classifier."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from keras import ops

from bert_keras import features
from bert_keras.inference import prompt_of
from bert_keras.inference.sentence_similarity import prompted
from bert_keras.inference.text_classification import REGRESSION, probabilities
from bert_keras.layers.embeddings import token_vectors_from
from bert_keras.models import SequenceClassifier
from bert_keras.tokenizers import Tokenizer
from bert_keras.visualize import figures
from bert_keras.visualize.encoded_text import encode, tokenizer_of
from bert_keras.visualize.gradients import value_and_gradient
from bert_keras.visualize.picture import Picture, document, escaped

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True, repr=False)
class SaliencyPicture(Picture):
    """Tokens of a text, coloured by how much each of them speaks for a label.

    Attributes:
        tokens: the pieces, as in the vocabulary.
        labels: the pieces for people. "##" marks a piece that continues a word.
        scores: gradient x input of each token, float32 [tokens]. A positive score speaks for the
            label, a negative one against it.
        label: name of the label.
        logit: the model's logit of the label.
        probability: its probability; None for a regression, whose logit is the number.
        note: a sentence about tokens that were cut off; "" if there are none.
    """

    tokens: Sequence[str]
    labels: Sequence[str]
    scores: np.ndarray
    label: str
    logit: float
    probability: float | None
    note: str = ""

    height = 320

    @property
    def headline(self) -> str:
        """The label and its probability as a line of text."""
        if self.probability is None:
            return f"{self.label}: {self.logit:.3f}"
        return f"{self.label}: {self.probability:.1%}"

    @property
    def shares(self) -> np.ndarray:
        """The scores divided by the largest absolute score: float32 [tokens] from -1 to 1."""
        largest = float(np.abs(self.scores).max(initial=0.0))
        return self.scores / largest if largest > 0 else np.zeros_like(self.scores)

    @property
    def html(self) -> str:
        """The picture as one HTML document, which needs no other file and no network."""
        tokens = "\n".join(
            _token(label, number, float(score), float(share))
            for label, number, score, share in zip(
                self.labels,
                figures.signed_numbers(self.scores),
                self.scores,
                self.shares,
                strict=True,
            )
        )
        note = f'<p class="note" role="note">{escaped(self.note)}</p>' if self.note else ""
        body = f"""<main>
<h1>Tokens for and against a label</h1>
<p class="headline">{escaped(self.headline)}</p>
<ul class="legend" aria-label="legend"><li><span class="key for">+</span> for the label</li>
<li><span class="key against">−</span> against it</li>
<li class="how">gradient × input; a stronger colour is a larger share</li></ul>
{note}<ol class="tokens" aria-label="tokens">
{tokens}
</ol>
</main>"""
        return document(f"Saliency: {self.label}", body, "saliency")

    def figure(self) -> Figure:
        """Return the picture as a new figure of Matplotlib."""
        return figures.saliency_figure(
            self.labels, self.scores, self.shares, self.headline, self.note
        )


def _token(label: str, number: str, score: float, share: float) -> str:
    """Return the HTML of one token, with its signed score."""
    side = "for" if score > 0 else "against" if score < 0 else "none"
    strength = round(100 * abs(share))
    return (
        f'<li class="{side}" style="--strength: {strength}%">'
        f"<span>{escaped(label)}</span><small>{number}</small></li>"
    )


def saliency(
    classifier: Any,
    text: str,
    pair: str | None = None,
    *,
    label: str | int | None = None,
    tokenizer: Tokenizer | None = None,
    max_length: int | None = None,
) -> SaliencyPicture:
    """Return how much each token speaks for a label: gradient x input.

    The score of a token is the dot product of its vector in the token table and the gradient of the
    label's logit with respect to this vector (Shrikumar et al., 2017; Denil et al., 2014). It is
    the first-order estimate of how much the logit falls if the vector becomes zero. It describes
    the model near this text; it is no proof of a cause.

    Args:
        classifier: a `SequenceClassifier`, or a `Predictor` of one. Its prompt is put before the
            text, as in `predict_labels`.
        text: the text.
        pair: a second text for a classifier of pairs; None for a single text.
        label: name or number of the label; None for the most probable one.
        tokenizer: tokenizer of the classifier; None for the one that it holds.
        max_length: most tokens; the text is cut behind them. None for the classifier's.

    Raises:
        TypeError: the model is no `SequenceClassifier`, or a text is no string.
        ValueError: the label is unknown, or there is no tokenizer.
    """
    task = getattr(classifier, "task", classifier)  # of a Predictor
    if not isinstance(task, SequenceClassifier):
        raise TypeError(
            "`saliency` needs a SequenceClassifier, or a Predictor of one. Received: "
            f"{type(task).__name__}. SequenceClassifier.from_preset(folder) opens one."
        )
    number = _label_number(task, label)
    length = classifier.max_length if max_length is None else max_length
    tokenizer = tokenizer_of(classifier, tokenizer)
    if isinstance(text, str):
        text = prompted([text], prompt_of(task.options))[0]
    row = encode(task, tokenizer, text, pair, length, task.inputs)

    def logits_of() -> Any:
        """Return the logits of the text, a tensor [classes]."""
        outputs: Any = task(row.inputs, training=False)
        return outputs[features.LABEL][0]

    logits = ops.convert_to_numpy(logits_of())
    number = int(logits.argmax()) if number is None else number
    table = task.encoder.embeddings.token
    vectors = ops.convert_to_numpy(ops.cast(table(row.inputs[features.TOKEN_IDS]), "float32"))

    def logit_of(token_vectors: Any) -> Any:
        """Return the label's logit for vectors in place of the rows of the token table."""
        with token_vectors_from(token_vectors):
            return logits_of()[number]

    _, gradient = value_and_gradient(logit_of, vectors)
    problem, names = task.options["problem"], task.options["labels"]
    chances = None if problem == REGRESSION else probabilities(logits[None], problem)[0]
    return SaliencyPicture(
        tokens=row.tokens,
        labels=row.labels,
        scores=(gradient * vectors).sum(axis=-1)[0],
        label=str(names[number]),
        logit=float(logits[number]),
        probability=None if chances is None else float(chances[number]),
        note=row.note,
    )


def _label_number(task: SequenceClassifier, label: str | int | None) -> int | None:
    """Return the number of a label; None for the most probable one.

    Raises:
        ValueError: the classifier has no such label.
    """
    names = list(task.options["labels"])
    if label is None:
        return None
    if isinstance(label, str) and label in names:
        return names.index(label)
    if isinstance(label, int) and not isinstance(label, bool) and 0 <= label < len(names):
        return label
    shown = ", ".join(map(str, names[:20]))
    raise ValueError(
        f"`label` must be one of {shown}, a number from 0 to {len(names) - 1}, or None for the "
        f"most probable one. Received: label={label!r}"
    )
