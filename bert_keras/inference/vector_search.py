"""Search in a corpus of vectors."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bert_keras.data.columns import texts_of
from bert_keras.inference.base import Ranked, one_or_many, prompt_of
from bert_keras.inference.sentence_similarity import (
    DOCUMENT_PROMPTS,
    QUERY_PROMPTS,
    VectorMethods,
)
from bert_keras.retrieval.index import VectorIndex
from bert_keras.retrieval.nearest import COSINE, DOT
from bert_keras.retrieval.quantization import (
    FLOAT32,
    INT8,
    UBINARY,
    as_float32,
    precision_of,
    quantize,
    unit_length,
)

_BLOCK = 8192  # documents that are encoded before their vectors are written
# Least cosine of the stored and a new vector of a text, by the same model. Other backends, half
# precision and exported models change vectors a little. Single bits of vectors with a cosine of
# 0.9 have a cosine of 0.71.
_SAME, _SAME_BITS = 0.9, 0.7
# Index -> the model that is known to have made it.
_MAKERS: weakref.WeakKeyDictionary[VectorIndex, weakref.ref[Any]] = weakref.WeakKeyDictionary()


class SearchMethods(VectorMethods):
    """Prediction methods of all models, because every encoder gives vectors of texts."""

    @one_or_many("queries")
    def search(
        self,
        queries: str | Sequence[str],
        corpus: Sequence[str] | np.ndarray | VectorIndex,
        *,
        top_k: int = 10,
        exact: bool | None = None,
        rescore: int = 4,
        prompt: str | None = None,
        prompt_name: str | None = None,
        truncate_dim: int | None = None,
        long_texts: str | None = None,
        stride: int | None = None,
    ) -> Any:
        """Return the nearest texts of a corpus for each query, by their vectors, the best first.

        Queries have the model's prompt "query", if it has one, as in `encode_queries`. Texts of the
        corpus are encoded by `encode_documents`; for more than one search, pass a `VectorIndex`.

        Args:
            queries: queries, or one query.
            corpus: texts, vectors of any precision, or an index, such as `index_documents` makes.
            top_k: number of texts for each query.
            exact: True to compare all vectors of an index with a graph; see `VectorIndex.search`.
            rescore: see `VectorIndex.search`.
            prompt: prompt before the queries, instead of the model's; see `encode`.
            prompt_name: name of the prompt; see `encode`.
            truncate_dim: number of first dimensions to compare; None for all, or for the number
                with which `index_documents` made the index.
            long_texts: "truncate" or "windows" for long texts; see `encode`.
            stride: doc stride of the windows; see `encode`.

        Returns:
            A list of `Ranked` for each query; for one query its list. `Ranked.text` is "" where the
            corpus has vectors alone.

        Raises:
            TypeError: `corpus` is a str or a path.
            ValueError: another model made the index, an argument is out of range, or the model
                compares by a distance.
        """
        if isinstance(corpus, str | Path):
            raise TypeError(
                "`corpus` must be texts, vectors or an index: bert_keras.retrieval.VectorIndex."
                f"load(folder) opens one. Received: {corpus!r:.100}"
            )
        if top_k < 1:
            raise ValueError(f"`top_k` must be at least 1. Received: top_k={top_k}")
        before = self._with_prompt(QUERY_PROMPTS, {"prompt": prompt, "prompt_name": prompt_name})
        reading = {"long_texts": long_texts, "stride": stride}
        options: Mapping[str, Any] = {}
        if isinstance(corpus, VectorIndex):
            options = corpus.options or {}
        cut = options.get("truncate_dim") if truncate_dim is None else truncate_dim
        vectors = self._vectors(queries, **before, **self._reading(long_texts, stride))
        if isinstance(corpus, VectorIndex):
            index = corpus
            self._check_maker(index, vectors.shape[1] if cut is None else cut, vectors.shape[1])
            vectors = self._cut(vectors, cut, options.get("normalize"))
        else:
            vectors = self._cut(vectors, cut, None)
            made = self._index_of(corpus, vectors.shape[1], truncate_dim=cut, **reading)
            if made is None:
                return [[] for _ in queries]
            index = made
        found = index.search(vectors, top_k, exact=exact, rescore=rescore)
        texts = index.texts
        return [
            [
                Ranked(row, "" if texts is None else texts[row], score)
                for row, score in zip(rows, scores, strict=True)
            ]
            for rows, scores in zip(found.indices.tolist(), found.scores.tolist(), strict=True)
        ]

    def index_documents(
        self,
        documents: Iterable[str],
        folder: str | Path,
        *,
        model: str = "",
        precision: str = FLOAT32,
        similarity: str | None = None,
        progress: Callable[[int], None] | None = None,
        **options: Any,
    ) -> VectorIndex:
        """Encode a corpus, write its vectors and texts into a folder, and return the index.

        The documents are read, encoded and written a block at a time, so they may be a generator
        over more texts than fit into memory. The folder appears when all are encoded.

        Args:
            documents: texts.
            folder: folder to write, which must be free or have an index.
            model: name to store, such as the handle or folder that opens this model.
            precision: number format of the vectors; see `encode`.
            similarity: "cosine" or "dot"; None for the model's.
            progress: called after each block with the number of documents that are done.
            options: options of `encode_documents`.

        Raises:
            UsageError: the folder exists and is not an index.
            ValueError: an argument is out of range, there are no documents, or the model compares
                by a distance.
        """
        if isinstance(documents, str):
            raise TypeError(
                f"`documents` must be a list of texts. Received: one str, {documents!r:.100}"
            )
        options = self._with_prompt(DOCUMENT_PROMPTS, options)
        names = (options.pop("prompt", None), options.pop("prompt_name", None))
        options["prompt"] = prompt_of(self._prediction_model().options, *names)
        options = {name: value for name, value in options.items() if value is not None}

        def blocks() -> Iterator[tuple[np.ndarray, list[str]]]:
            """Yield the vectors and the texts of each block."""
            rest, done = iter(documents), 0
            while block := list(itertools.islice(rest, _BLOCK)):
                texts = texts_of("documents", block)
                yield self.encode(texts, **options), texts
                done += len(texts)
                if progress is not None:
                    progress(done)

        similarity = self._vector_similarity() if similarity is None else similarity
        return VectorIndex.write(
            folder,
            blocks(),
            precision=precision,
            similarity=similarity,
            model=model,
            options=options,
        )

    def _index_of(self, corpus: Any, size: int, **options: Any) -> VectorIndex | None:
        """Return an index of texts or vectors; None for no texts.

        Args:
            corpus: texts, or an array of vectors.
            size: size of the vectors of queries.
            options: options of `encode_documents`.
        """
        similarity = self._vector_similarity()
        if isinstance(corpus, np.ndarray) and corpus.ndim == 2:
            precision = precision_of(corpus)
            is_bits = precision == UBINARY and corpus.shape[1] == -(-size // 8)
            return VectorIndex(
                corpus,
                size=size if is_bits else None,
                similarity=COSINE if precision in (INT8, UBINARY) else similarity,
            )
        texts = texts_of("corpus", corpus)
        if not texts:
            return None
        return VectorIndex(self.encode_documents(texts, **options), texts, similarity=similarity)

    def _vector_similarity(self) -> str:
        """Return the similarity by which the model's vectors are searched.

        Raises:
            ValueError: it is a distance.
        """
        name = self._prediction_model().options.get("similarity", COSINE)
        if name not in (COSINE, DOT):
            raise ValueError(
                f"`search` compares vectors by {COSINE!r} or {DOT!r}, and this model by {name!r}. "
                "Make an index with `index_documents(..., similarity='cosine')`, or call `rank`."
            )
        return name

    def _check_maker(self, index: VectorIndex, size: int, full: int) -> None:
        """Raise `ValueError` if another model made an index.

        Args:
            index: index with its options.
            size: size of the vectors of queries that are compared.
            full: size of this model's vectors.
        """
        name = f" of {index.model!r}" if index.model else ""
        cure = "Search with the model that made it, or make the index again by `index_documents`."
        if size != index.size or size > full:
            raise ValueError(
                f"The index has vectors{name} of {index.size} numbers, and this model makes "
                f"{full}{f', cut to {size}' if size < full else ''}. {cure}"
            )
        model = self._prediction_model().vector_model()
        known = _MAKERS.get(index)
        if index.options is None or not index.texts or (known is not None and known() is model):
            return
        made = quantize(self.encode([index.texts[0]], **index.options), index.precision)
        pair = [unit_length(as_float32(row, size))[0] for row in (made, index.vectors[:1])]
        cosine = float(pair[0] @ pair[1])
        is_empty = not (pair[0].any() and pair[1].any())
        if cosine < (_SAME_BITS if index.precision == UBINARY else _SAME) and not is_empty:
            raise ValueError(
                f"The index has vectors{name} of another model: its first text has a vector there "
                f"whose cosine with that of this model is {cosine:.2f}. {cure}"
            )
        _MAKERS[index] = weakref.ref(model)
