"""Graph of vectors for approximate search (HNSW: Malkov & Yashunin, 2018), kept by usearch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np

from bert_keras.errors import ArtifactError
from bert_keras.retrieval.nearest import COSINE
from bert_keras.retrieval.quantization import (
    FLOAT16,
    FLOAT32,
    INT8,
    UBINARY,
    as_float32,
    precision_of,
    quantize,
)

_ROWS = 8192  # vectors that are added at once
_TYPES = {FLOAT32: "f32", FLOAT16: "f16", INT8: "i8", UBINARY: "b1"}


class VectorGraph:
    """Graph that holds a copy of vectors, numbered from 0.

    Args:
        size: numbers of a vector.
        precision: number format of the vectors in the graph.
        similarity: "cosine" or "dot".
        options: options of `usearch.index.Index`.

    Raises:
        ImportError: usearch is not installed.
    """

    def __init__(self, size: int, precision: str, similarity: str, **options: int):
        is_bits = precision == UBINARY
        self.precision, self._size = precision, size
        self._index = _usearch().Index(
            ndim=-(-size // 8) * 8 if is_bits else size,
            metric="hamming" if is_bits else "cos" if similarity == COSINE else "ip",
            dtype=_TYPES[precision],
            **options,
        )

    @classmethod
    def build(
        cls,
        vectors: np.ndarray,
        size: int,
        precision: str,
        similarity: str,
        progress: Callable[[int, int], None] | None = None,
        **options: int,
    ) -> Self:
        """Return the graph of vectors.

        Args:
            vectors: vectors of any precision.
            size: numbers of a vector.
            precision: number format of the vectors in the graph.
            similarity: "cosine" or "dot".
            progress: called with the number of vectors that are done, and in all.
            options: options of `usearch.index.Index`.
        """
        graph = cls(size, precision, similarity, **options)
        for start in range(0, len(vectors), _ROWS):
            part = vectors[start : start + _ROWS]
            if precision != precision_of(vectors):
                part = quantize(as_float32(part, size), precision)
            numbers = np.arange(start, start + len(part))
            graph._index.add(numbers, np.ascontiguousarray(part))
            if progress is not None:
                progress(start + len(part), len(vectors))
        return graph

    @classmethod
    def open(
        cls, path: Path, bytes_: int, rows: int, size: int, precision: str, similarity: str
    ) -> Self:
        """Open a file as a memory-mapped graph.

        Args:
            path: path of the file.
            bytes_: its size in bytes when it was written.
            rows: number of vectors.
            size: numbers of a vector.
            precision: number format of the vectors in the graph.
            similarity: "cosine" or "dot".

        Raises:
            ArtifactError: the file cannot be read, or is a graph of other vectors.
        """
        graph = cls(size, precision, similarity)
        found_size = path.stat().st_size if path.is_file() else 0
        if found_size != bytes_:
            raise _wrong_graph(path, f"{found_size:,} of {bytes_:,} bytes")
        expected: dict[str, Any] = {
            "count_present": rows,
            "dimensions": graph._index.ndim,
            "kind_scalar": graph._index.dtype,
            "kind_metric": graph._index.metric_kind,
        }
        try:
            found: dict[str, Any] | None = _usearch().Index.metadata(str(path))
            graph._index.view(str(path))
        except (RuntimeError, ValueError, OSError) as error:
            raise _wrong_graph(path, str(error)) from error
        for name, value in expected.items():
            received = found.get(name) if found else None
            if received != value:
                raise _wrong_graph(path, f"{name} {received} instead of {value}")
        return graph

    def save(self, path: Path) -> None:
        """Write the graph into a file."""
        self._index.save(str(path))

    def candidates(self, queries: np.ndarray, wanted: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of vectors near to queries.

        Args:
            queries: float32 [queries, size].
            wanted: number of vectors for each query.

        Returns:
            int64 [queries, wanted] in ascending order, and bool [queries]: False for a query with
            fewer vectors.
        """
        self._index.expansion_search = wanted
        matches = self._index.search(quantize(queries, self.precision), wanted)
        keys = np.atleast_2d(np.asarray(matches.keys))  # one axis for one query
        is_complete = np.asarray(getattr(matches, "counts", [keys.shape[1]])) >= wanted
        found = np.zeros((len(queries), wanted), np.int64)
        found[is_complete] = np.sort(keys[is_complete].astype(np.int64), axis=1)
        return found, is_complete


def _wrong_graph(path: Path, found: str) -> ArtifactError:
    """Return the error about a damaged graph."""
    return ArtifactError(
        f"{path}: the graph is damaged. Search with exact=True, call `build_graph` and `save`, or "
        f"copy the folder again. Received: {found}"
    )


def _usearch() -> Any:
    """Return the module `usearch.index`.

    Raises:
        ImportError: usearch is not installed.
    """
    try:
        from usearch import index
    except ImportError as error:
        raise ImportError(
            'A graph needs usearch: pip install "bert-keras[search]". `search(..., exact=True)` '
            "does without."
        ) from error
    return index
