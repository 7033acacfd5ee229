"""Scores of tokens: how much each token speaks for a label of a classifier."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

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
from bert_keras.visualize.picture import Picture, ThemeName, document, escaped, palette_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = ("integrated_gradients", "gradient_x_input")
_TOKENS_AT_ONCE = 4096  # in a batch of gradients; it limits the memory


@dataclasses.dataclass(frozen=True, repr=False)
class SaliencyPicture(Picture):
    """Tokens of a text, coloured by how much each token speaks for a label.

    Attributes:
        tokens: the tokens, as in the vocabulary.
        labels: the tokens as people read them. "##" marks one that continues a word.
        scores: score of each token, float32 [tokens]. A positive score speaks for the label, a
            negative one against it.
        label: name of the label.
        logit: the model's logit of the label.
        probability: its probability; None for a regression, where the logit is the answer.
        how: name of the method.
        note: a sentence about tokens that were cut off; "" if there are none.
    """

    tokens: Sequence[str]
    labels: Sequence[str]
    scores: np.ndarray
    label: str
    logit: float
    probability: float | None
    how: str
    note: str = ""

    height = 320

    @property
    def headline(self) -> str:
        """The label and its probability, or the number of a regression, as a line of text."""
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
<li class="how">{escaped(self.how)}; a stronger colour is a larger score</li></ul>
{note}<ol class="tokens" aria-label="tokens">
{tokens}
</ol>
</main>"""
        return document(f"Saliency: {self.label}", body, "saliency")

    def figure(self, theme: ThemeName = "light") -> Figure:
        """Return the tokens in lines, each with its colour and score.

        See `Picture.figure` for the theme.
        """
        palette = palette_of(theme)
        return figures.saliency_figure(
            self.labels, self.scores, self.shares, self.headline, self.how, self.note, palette
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
    method: Literal["integrated_gradients", "gradient_x_input"] = "integrated_gradients",
    steps: int = 20,
    tokenizer: Tokenizer | None = None,
    max_length: int | None = None,
) -> SaliencyPicture:
    """Return how much each token speaks for a label, by gradients of the label's logit.

    The gradients are taken with respect to the token embeddings.

    "integrated_gradients" (Sundararajan et al., 2017): the mean gradient on the line from a text of
    [MASK] tokens to this text, times the difference of the two embeddings. The scores add up to the
    logit of this text minus the logit of the masked text; more `steps` make the sum more exact.
    [CLS] and [SEP] are in both texts and have the score 0.

    "gradient_x_input" (Shrikumar et al., 2017): the gradient at this text, times the embedding. It
    is quicker, but predicts poorly what happens without a token: a normalisation follows the
    embedding, so the length of its vector says little. docs/pictures.md compares the two methods.

    Both methods describe the model near this text. Neither proves a cause.

    Args:
        classifier: a `SequenceClassifier`, or a `Predictor` of one. Its prompt is put before the
            text, as in `predict_labels`.
        text: the text.
        pair: a second text for a classifier of pairs; None for a single text.
        label: name or number of the label; None for the most probable one.
        method: "integrated_gradients" or "gradient_x_input".
        steps: number of points on the line where "integrated_gradients" takes the gradient.
        tokenizer: tokenizer of the classifier; None for the one that it holds.
        max_length: maximum number of tokens; a longer text is cut off. None for the classifier's.

    Raises:
        TypeError: the model is no `SequenceClassifier`, or a text is no string.
        ValueError: the label or the method is unknown, `steps` is less than 1, or there is no
            tokenizer.
    """
    task = getattr(classifier, "task", classifier)  # of a Predictor
    if not isinstance(task, SequenceClassifier):
        raise TypeError(
            "`saliency` needs a SequenceClassifier, or a Predictor of one. Received: "
            f"{type(task).__name__}. SequenceClassifier.from_preset(folder) opens one."
        )
    _check_method(method, steps)
    number = _label_number(task, label)
    length = classifier.max_length if max_length is None else max_length
    tokenizer = tokenizer_of(classifier, tokenizer)
    if isinstance(text, str):
        text = prompted([text], prompt_of(task.options))[0]
    row = encode(task, tokenizer, text, pair, length, task.inputs)
    outputs: Any = task(row.inputs, training=False)
    logits = ops.convert_to_numpy(outputs[features.LABEL])[0]
    number = int(logits.argmax()) if number is None else number
    ids = row.inputs[features.TOKEN_IDS]
    vectors = _token_embeddings(task, ids)
    if method == "integrated_gradients":
        masked = np.where(row.is_special, ids, np.int32(tokenizer.mask_id))
        difference = vectors - _token_embeddings(task, masked)
        shares = (np.arange(steps) + 0.5) / steps  # the midpoints of equal parts of the line
        points = vectors - (1 - shares[:, None, None].astype(np.float32)) * difference
        how = f"integrated gradients from {tokenizer.scheme.mask}"
    else:
        difference, points, how = vectors, vectors, "gradient × input"
    gradient = _gradients(task, row.inputs, points, number).mean(axis=0)
    problem, names = task.options["problem"], task.options["labels"]
    is_regression = problem == REGRESSION
    scores = None if is_regression else probabilities(logits[None], problem)[0]
    return SaliencyPicture(
        tokens=row.tokens,
        labels=row.labels,
        scores=(gradient * difference[0]).sum(axis=-1),
        label=str(names[number]),
        logit=float(logits[number]),
        probability=None if scores is None else float(scores[number]),
        how=how,
        note=row.note,
    )


def _token_embeddings(task: SequenceClassifier, ids: np.ndarray) -> np.ndarray:
    """Return the embeddings of token ids: float32 [1, tokens, width]."""
    rows = task.encoder.embeddings.token(ids)
    return ops.convert_to_numpy(ops.cast(rows, "float32"))


def _gradients(
    task: SequenceClassifier, inputs: dict[str, np.ndarray], points: np.ndarray, number: int
) -> np.ndarray:
    """Return the gradients of a label's logit at vectors that replace the token embeddings.

    Args:
        task: the classifier.
        inputs: its inputs by name, int32 [1, tokens].
        points: the vectors, float32 [points, tokens, width].
        number: number of the label.

    Returns:
        float32 [points, tokens, width].
    """
    batch_size = max(1, _TOKENS_AT_ONCE // points.shape[1])
    gradients = []
    for start in range(0, len(points), batch_size):
        batch = points[start : start + batch_size]
        rows = {name: np.repeat(values, len(batch), axis=0) for name, values in inputs.items()}

        def logit_of(vectors: Any, rows: dict[str, np.ndarray] = rows) -> Any:
            """Return the label's logit of each row, a tensor [rows]."""
            with token_vectors_from(vectors):
                outputs: Any = task(rows, training=False)
            return outputs[features.LABEL][:, number]

        gradients.append(value_and_gradient(logit_of, batch)[1])
    return np.concatenate(gradients)


def _check_method(method: str, steps: int) -> None:
    """Raise `ValueError` for an unknown method, or for fewer than one step."""
    if method not in METHODS:
        raise ValueError(f"`method` must be one of {', '.join(METHODS)}. Received: {method!r}")
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
        raise ValueError(f"`steps` must be an integer of at least 1. Received: steps={steps!r}")


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
