"""Map of texts in two dimensions: near texts have similar sentence vectors."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bert_keras.errors import NumericError
from bert_keras.models import BertEncoder
from bert_keras.predictor import Predictor
from bert_keras.tokenizers import Tokenizer
from bert_keras.visualize import figures, projector
from bert_keras.visualize.picture import Picture, ThemeName, document, escaped, palette_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = ("pca", "tsne")
MAX_POINTS = 5_000  # a browser draws these quickly
_SHOWN = 300  # characters of a text
_FEWEST = 5  # texts for t-SNE
_PERPLEXITY = 30.0  # van der Maaten & Hinton (2008) recommend 5 to 50

_BODY = """<main>
<h1>Map of texts</h1>
<p class="summary">{summary}</p>
<form class="controls"><label>Find <input type="search" id="find" autocomplete="off"></label>
<span id="found" role="status"></span></form>
<ul id="legend" aria-label="labels"></ul>
<div id="map"><svg id="drawing" role="group" aria-label="map of texts"></svg>
<div id="tip" role="tooltip" hidden></div></div>
<p class="how">Point at a mark to read its text; the Tab and arrow keys reach the marks too. Click a
label to hide or show its texts.</p>
<noscript><p>This picture needs JavaScript, which is in this file.</p></noscript>
</main>"""


@dataclasses.dataclass(frozen=True, repr=False)
class EmbeddingMap(Picture):
    """Texts as points in two dimensions.

    Attributes:
        texts: the texts.
        labels: a label for each text; None without labels.
        vectors: a vector for each text, float32 [texts, size].
        coordinates: places of the points, float32 [texts, 2].
        summary: number of texts and the method, as a line of text.
    """

    texts: Sequence[str]
    labels: Sequence[str] | None
    vectors: np.ndarray
    coordinates: np.ndarray
    summary: str

    height = 680

    @property
    def html(self) -> str:
        """The picture as one HTML document, which needs no other file and no network."""
        names = list(dict.fromkeys(self.labels or ()))
        number = {name: place for place, name in enumerate(names)}
        data = {
            "colors": figures.COLORS,
            "texts": [_shortened(text) for text in self.texts],
            "names": names,
            "labels": [number[label] for label in self.labels or ()],
            "points": self.coordinates.astype(np.float64).round(4).tolist(),
        }
        body = _BODY.format(summary=escaped(self.summary))
        return document("Map of texts", body, "map", data)

    def figure(self, theme: ThemeName = "light") -> Figure:
        """Return the map with a legend. Up to 20 texts are written beside their points.

        See `Picture.figure` for the theme.
        """
        palette = palette_of(theme)
        return figures.map_figure(self.texts, self.labels, self.coordinates, self.summary, palette)

    def save_projector(self, folder: str | os.PathLike[str]) -> Path:
        """Write vectors, texts and labels for TensorBoard's projector.

        `tensorboard --logdir FOLDER` shows them under "Projector". See `projector.write`.

        Args:
            folder: folder of the files, which are replaced.

        Returns:
            The folder.
        """
        return projector.write(folder, self.vectors, self.texts, self.labels)


def embeddings(
    model: Any,
    texts: Sequence[str],
    labels: Sequence[Any] | None = None,
    *,
    method: Literal["pca", "tsne"] = "pca",
    tokenizer: Tokenizer | None = None,
    perplexity: float | None = None,
    seed: int = 0,
) -> EmbeddingMap:
    """Return texts as points in two dimensions, by scikit-learn's PCA or t-SNE.

    The same arguments give the same map on the same machine.

    Args:
        model: a `SentenceEncoder`, another task or a `Predictor`, whose method `encode` makes the
            vectors; a `BertEncoder` together with `tokenizer`; or vectors, floats [texts, size].
        texts: the texts.
        labels: a label for each text; None for none. Each label has a colour and a mark.
        method: "pca" for the two directions in which the vectors differ most; or "tsne", which
            keeps near texts together. With "tsne", distances between groups have no meaning.
        tokenizer: tokenizer of a `BertEncoder`, or one to use in place of the task's.
        perplexity: number of neighbours that count in t-SNE, less than the number of texts. None
            for 30, or for a third of the texts if that is less.
        seed: seed of t-SNE.

    Raises:
        TypeError: texts, labels or model of another type.
        ValueError: lengths that differ, no texts, too few texts for t-SNE, an unknown method, or a
            perplexity that is out of range.
        NumericError: a vector is not finite.
        ImportError: scikit-learn is not installed.
    """
    if method not in METHODS:
        raise ValueError(f"`method` must be 'pca' or 'tsne'. Received: method={method!r}")
    texts = _checked_texts(texts)
    names = _checked_labels(labels, len(texts))
    if len(texts) > MAX_POINTS:
        raise ValueError(
            f"A map has at most {MAX_POINTS:,} texts. Received: {len(texts):,}. Pass a sample, "
            "such as random.sample(texts, 5_000)."
        )
    if method == "tsne":
        perplexity = _checked_perplexity(perplexity, len(texts))
    _decomposition()  # an error before the vectors, which may take long
    vectors = _vectors(model, texts, tokenizer)
    if method == "pca":
        coordinates, summary = _by_pca(vectors)
    else:
        assert perplexity is not None
        coordinates, summary = _by_tsne(vectors, perplexity, seed)
    return EmbeddingMap(texts, names, vectors, coordinates, f"{len(texts):,} texts; {summary}")


def _checked_texts(texts: Any) -> list[str]:
    """Return texts as a list of strings.

    Raises:
        TypeError: one string, or a value that is no string.
        ValueError: no texts.
    """
    if isinstance(texts, str):
        raise TypeError(f"`texts` must be a list of strings. Received: one string, {texts!r:.80}")
    values = list(texts)
    if not values:
        raise ValueError("`texts` must have a text or more. Received: none")
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"`texts` must be strings. Received: {value!r:.80}")
    return values


def _checked_labels(labels: Any, count: int) -> list[str] | None:
    """Return labels as strings; None for none.

    Raises:
        TypeError: one string.
        ValueError: another number of labels than of texts.
    """
    if labels is None:
        return None
    if isinstance(labels, str):
        raise TypeError(f"`labels` must be a list of labels. Received: one string, {labels!r:.80}")
    names = [str(label) for label in labels]
    if len(names) != count:
        raise ValueError(
            f"Every text needs one label. Received: {count} texts and {len(names)} labels"
        )
    return names


def _checked_perplexity(perplexity: float | None, count: int) -> float:
    """Return the perplexity of t-SNE.

    Raises:
        ValueError: too few texts, or a perplexity that is out of range.
    """
    if count < _FEWEST:
        raise ValueError(
            f"t-SNE needs {_FEWEST} texts or more. Received: {count}. Pass method='pca'."
        )
    if perplexity is None:
        return min(_PERPLEXITY, (count - 1) / 3)
    if not 1 <= perplexity < count:
        raise ValueError(
            f"`perplexity` must be from 1 to less than {count}, the number of texts. "
            f"Received: perplexity={perplexity!r}"
        )
    return float(perplexity)


def _vectors(model: Any, texts: list[str], tokenizer: Tokenizer | None) -> np.ndarray:
    """Return the vectors of texts: float32 [texts, size].

    Raises:
        TypeError: the model makes no vectors.
        ValueError: there is no tokenizer, or the array has another shape.
        NumericError: a vector is not finite.
    """
    task: Any = getattr(model, "task", model)  # of a Predictor
    if isinstance(model, BertEncoder) or (tokenizer is not None and hasattr(task, "encoder")):
        model = Predictor(task, tokenizer)
    if hasattr(model, "encode") and not isinstance(model, str | Tokenizer):
        vectors = np.asarray(model.encode(texts), np.float32)
    elif isinstance(model, str | bytes | Tokenizer) or callable(model):
        raise TypeError(
            "`model` must make vectors of texts, as a SentenceEncoder, another task or a Predictor "
            f"does; or be an array [texts, size]. Received: {type(model).__name__}"
        )
    else:
        vectors = np.asarray(model, np.float32)
    if vectors.ndim != 2 or len(vectors) != len(texts) or not vectors.shape[1]:
        raise ValueError(
            "Every text needs one vector: an array [texts, size]. "
            f"Received: {len(texts)} texts and an array {list(vectors.shape)}"
        )
    if not np.isfinite(vectors).all():
        number = int(np.argmin(np.isfinite(vectors).all(axis=1)))
        raise NumericError(
            f"The vector of text {number} is not finite. Check the weights of the model."
        )
    return vectors


def _by_pca(vectors: np.ndarray) -> tuple[np.ndarray, str]:
    """Return the two principal components, float32 [texts, 2], and the method as text.

    One text gives no component, and vectors of one number give one. The others are zero.
    """
    coordinates = np.zeros((len(vectors), 2), np.float32)
    if len(vectors) == 1:
        return coordinates, "PCA"
    count = min(2, *vectors.shape)
    centred = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    if not centred.any():  # PCA would divide by the variance, which is zero
        return coordinates, "PCA; all vectors are equal"
    pca = _decomposition().PCA(count, svd_solver="full")
    coordinates[:, :count] = pca.fit_transform(centred)
    shares = " and ".join(f"{share:.0%}" for share in pca.explained_variance_ratio_)
    return coordinates, f"PCA; the axes explain {shares} of the variance"


def _by_tsne(vectors: np.ndarray, perplexity: float, seed: int) -> tuple[np.ndarray, str]:
    """Return t-SNE's coordinates, float32 [texts, 2], and the method as text."""
    from sklearn.manifold import TSNE

    # PCA cannot initialise t-SNE for equal vectors, nor for vectors of one number.
    varied = min(2, *vectors.shape) == 2 and np.ptp(vectors, axis=0).any()
    tsne = TSNE(2, perplexity=perplexity, init="pca" if varied else "random", random_state=seed)
    coordinates = tsne.fit_transform(vectors).astype(np.float32)
    return coordinates, f"t-SNE with perplexity {perplexity:.3g} and seed {seed}"


def _decomposition() -> Any:
    """Return `sklearn.decomposition`.

    Raises:
        ImportError: scikit-learn is not installed.
    """
    try:
        from sklearn import decomposition
    except ImportError as error:
        raise ImportError(
            'The map needs scikit-learn. Install with: pip install "bert-keras[finetune]"'
        ) from error
    return decomposition


def _shortened(text: str) -> str:
    """Return the beginning of a text in one line."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
