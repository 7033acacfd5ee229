"""`VectorIndex`: the vectors of a corpus with their texts, searched and saved."""

# A caller without a type checker may pass anything: arguments are checked when it runs.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from bert_keras import file_io
from bert_keras.errors import ArtifactError
from bert_keras.retrieval.graph import VectorGraph
from bert_keras.retrieval.index_files import (
    GRAPH,
    VECTORS,
    Block,
    IndexSettings,
    StoredTexts,
    check_folder,
    read_array,
    stored_dtype,
    stored_width,
    write_files,
)
from bert_keras.retrieval.nearest import (
    COSINE,
    Nearest,
    Progress,
    check_search,
    nearest,
    rescored,
)
from bert_keras.retrieval.quantization import (
    FLOAT32,
    UBINARY,
    precision_of,
    quantize,
    unit_length,
)

_ROWS = 8192  # vectors that are copied at once
_LEAST = 64  # candidates of a search in a graph, where fewer are asked for


class VectorIndex:
    """Vectors of a corpus, which are searched in memory or on the disk.

    `search` compares all vectors. After `build_graph` it compares those that a graph finds (HNSW:
    Malkov & Yashunin, 2018), which is faster for a million vectors and may miss some.

    Args:
        vectors: vectors [rows, size] of any precision of `quantize`; may be memory-mapped.
        texts: a text, or an id as a str, for each vector; None for vectors alone.
        size: numbers of a vector before the quantisation, for single bits; None for 8 for each
            byte.
        similarity: "cosine", or "dot" for vectors of float32 or float16.
        model: name of the model that made the vectors, such as the handle that opens it.
        options: options of `encode` of the documents; None if they are not known. A model's
            `index_documents` states them, and `search` of another model then refuses the index.

    Raises:
        TypeError: a text is not a str.
        ValueError: vectors and texts differ in number, there are none, or the precision has no
            such similarity.
    """

    def __init__(
        self,
        vectors: np.ndarray,
        texts: Sequence[str] | None = None,
        *,
        size: int | None = None,
        similarity: str = COSINE,
        model: str = "",
        options: Mapping[str, Any] | None = None,
    ):
        precision = precision_of(vectors)
        width: int = vectors.shape[1]
        usual = 8 * width if precision == UBINARY else width
        size = usual if size is None else size
        if stored_width(size, precision) != width or not len(vectors):
            raise ValueError(
                f"`vectors` must be [rows, {stored_width(size, precision)}] for `size`, with at "
                f"least one row. Received: size={size} and {precision} of shape {vectors.shape}"
            )
        check_search((1, size), vectors, 1, similarity, 1)
        _check_options(options)
        if texts is not None and not isinstance(texts, StoredTexts):
            texts = _checked_texts(texts, len(vectors))
        self.vectors, self.texts = vectors, texts
        self.size, self.precision, self.similarity = size, precision, similarity
        self.model, self.options = model, None if options is None else dict(options)
        self._graph: VectorGraph | None = None
        self._graph_file: tuple[Path, int, str] | None = None  # path, bytes and precision

    def __len__(self) -> int:
        return len(self.vectors)

    def __repr__(self) -> str:
        made_by = f", made by {self.model!r}" if self.model else ""
        graph = ", with a graph" if self.has_graph else ""
        size = f"{len(self):,} vectors of {self.size} numbers"
        return f"<VectorIndex of {size}, {self.precision}{made_by}{graph}>"

    @property
    def has_graph(self) -> bool:
        """True after `build_graph`, and for a loaded index that was saved with its graph."""
        return self._graph is not None or self._graph_file is not None

    # === Search ===

    def search(
        self,
        queries: np.ndarray,
        top_k: int = 10,
        *,
        exact: bool | None = None,
        rescore: int = 4,
        progress: Progress | None = None,
    ) -> Nearest:
        """Return the nearest vectors of each query, the best first.

        Args:
            queries: float32 [queries, size].
            top_k: number of vectors for each query.
            exact: True to compare all vectors, False to use the graph; None for the graph if the
                index has one.
            rescore: for single bits, and for a graph: how many times `top_k` vectors are found
                first, and then compared with the query's own numbers. More finds more of the
                nearest vectors.
            progress: see `nearest`; a search in a graph does not call it.

        Raises:
            ValueError: an argument is out of range, the sizes differ, or `exact` is False and the
                index has no graph.
            ArtifactError: the file of the graph is damaged.
            ImportError: the index has a graph, and usearch is not installed.
        """
        queries = np.ascontiguousarray(queries, np.float32)
        options: dict[str, Any] = {"top_k": top_k, "similarity": self.similarity}
        options["rescore"] = rescore
        check_search(queries.shape, self.vectors, top_k, self.similarity, rescore)
        if exact is False and not self.has_graph:
            raise ValueError(
                "`exact=False` needs a graph: call `build_graph` first. Received: exact=False"
            )
        if exact or not self.has_graph or not len(queries):
            return nearest(queries, self.vectors, progress=progress, **options)
        count = min(top_k, len(self))
        wanted = min(max(rescore * count, _LEAST), len(self))
        if self.similarity == COSINE:
            queries = unit_length(queries)
        candidates, is_complete = self._open_graph().candidates(queries, wanted)
        found = rescored(queries, self.vectors, candidates, count, self.similarity)
        if not is_complete.all():  # parts of a graph may not be connected
            exactly = nearest(queries[~is_complete], self.vectors, **options)
            found.indices[~is_complete], found.scores[~is_complete] = exactly
        return found

    def build_graph(
        self,
        *,
        precision: str | None = None,
        connectivity: int = 16,
        expansion: int = 128,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Build a graph of the vectors in memory, by which `search` is faster.

        `save` writes it, and a loaded index reads it from the disk. The graph, and so the vectors
        that it misses, differ a little between runs on several cores.

        Args:
            precision: number format of the vectors in the graph; None for that of the index. A
                graph of "ubinary" is built fast and small, and `search` compares its candidates
                with the vectors of the index.
            connectivity: edges of a vector, M in the paper; more find more, in more memory.
            expansion: vectors that are compared when one is added, efConstruction in the paper.
            progress: called with the number of vectors that are done, and in all.

        Raises:
            ValueError: an argument is less than 2, or the precision has no such similarity.
            ImportError: usearch is not installed.
        """
        precision = self.precision if precision is None else precision
        if min(connectivity, expansion) < 2:
            raise ValueError(
                "`connectivity` and `expansion` must be at least 2. Received: "
                f"connectivity={connectivity}, expansion={expansion}"
            )
        empty = quantize(np.zeros((1, self.size), np.float32), precision)
        check_search((1, self.size), empty, 1, self.similarity, 1)
        self._graph = VectorGraph.build(
            self.vectors,
            self.size,
            precision,
            self.similarity,
            progress,
            connectivity=connectivity,
            expansion_add=expansion,
        )

    def _open_graph(self) -> VectorGraph:
        """Return the graph; one of a file is opened at the first search."""
        if self._graph is None:
            assert self._graph_file is not None
            path, bytes_, precision = self._graph_file
            self._graph = VectorGraph.open(
                path, bytes_, len(self), self.size, precision, self.similarity
            )
        return self._graph

    # === Files ===

    def save(self, folder: str | Path) -> None:
        """Write the index into a folder; an earlier index there is replaced when all is written.

        The folder has `vector_index.json`, `vectors.npy`, and, if the index has them, the texts in
        `texts.jsonl` and the graph in `graph.usearch`.

        Args:
            folder: folder, which is created if needed.

        Raises:
            UsageError: the folder exists and is not an index.
        """
        starts = range(0, len(self), _ROWS)
        texts = self.texts
        blocks = (
            (self.vectors[at : at + _ROWS], None if texts is None else texts[at : at + _ROWS])
            for at in starts
        )
        graph = self._open_graph() if self.has_graph else None
        write_files(
            file_io.expanded(folder),
            blocks,
            IndexSettings(
                len(self),
                self.size,
                self.precision,
                self.similarity,
                self.model,
                self.options,
                texts is not None,
                graph_precision="" if graph is None else graph.precision,
            ),
            None if graph is None else graph.save,
        )

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Open a saved index. Vectors, texts and graph stay on the disk and are read when needed.

        Args:
            folder: folder that `save`, `write` or a model's `index_documents` wrote.

        Raises:
            ArtifactError: if the folder has no index, or a damaged one.
        """
        folder = file_io.expanded(folder)
        settings = IndexSettings.read(folder)
        rows, precision = settings.rows, settings.precision
        shape = (rows, stored_width(settings.size, precision))
        try:
            index = cls(
                read_array(folder / VECTORS, stored_dtype(precision), shape),
                StoredTexts(folder, rows) if settings.texts else None,
                size=settings.size,
                similarity=settings.similarity,
                model=settings.model,
                options=settings.options,
            )
        except ArtifactError:
            raise
        except ValueError as error:
            raise ArtifactError(f"{folder}: {error}. Build the index again.") from error
        if settings.graph_bytes:
            bytes_, precision = settings.graph_bytes, settings.graph_precision
            index._graph_file = (folder / GRAPH, bytes_, precision)
        return index

    @classmethod
    def write(
        cls,
        folder: str | Path,
        blocks: Iterable[Block],
        *,
        precision: str = FLOAT32,
        similarity: str = COSINE,
        model: str = "",
        options: Mapping[str, Any] | None = None,
    ) -> Self:
        """Write an index block by block, for a corpus that does not fit into memory, and load it.

        If a block fails, nothing of the new index stays, and an earlier index stays as it is.

        Args:
            folder: folder to write, which must be free or have an index.
            blocks: pairs of vectors, float32 [rows, size], and a list of their texts; None instead
                of the texts of all blocks for vectors alone.
            precision: number format to write; see `quantize`.
            similarity: see `VectorIndex`.
            model: see `VectorIndex`.
            options: see `VectorIndex`.

        Raises:
            UsageError: the folder exists and is not an index.
            ValueError: blocks differ in size, or a block has more or fewer texts than vectors.
        """
        folder = file_io.expanded(folder)
        check_folder(folder)
        _check_options(options)
        blocks = iter(blocks)
        first = next(blocks, None)
        if first is None:
            raise ValueError("An index needs at least one vector. Received: no blocks")
        size = first[0].shape[-1]
        check_search((1, size), quantize(first[0], precision), 1, similarity, 1)
        settings = IndexSettings(
            0, size, precision, similarity, model, options, first[1] is not None
        )
        write_files(folder, _checked_blocks(first, blocks, settings), settings)
        return cls.load(folder)


def _checked_blocks(first: Block, others: Iterator[Block], settings: IndexSettings) -> Any:
    """Yield blocks in their precision, after checking that they are of one kind.

    Raises:
        ValueError: if a block has another size, or its texts do not fit.
    """
    number, block = 0, first
    while block is not None:
        vectors, texts = block
        if vectors.ndim != 2 or vectors.shape[1] != settings.size:
            raise ValueError(
                f"Every block must have vectors [rows, {settings.size}], as the first one has. "
                f"Received: block {number} of shape {vectors.shape}"
            )
        if (texts is not None) != settings.texts:
            raise ValueError(
                "All blocks must have texts, or none. Received: block 0 "
                f"{'with' if settings.texts else 'without'} texts, unlike block {number}"
            )
        if texts is not None:
            texts = _checked_texts(texts, len(vectors))
        yield quantize(vectors, settings.precision), texts
        number, block = number + 1, next(others, None)


def _checked_texts(texts: Sequence[str], rows: int) -> list[str]:
    """Return texts as a list, after checking number and types.

    Raises:
        TypeError: if a text is not a str.
        ValueError: if there are more or fewer than `rows`.
    """
    texts = [texts] if isinstance(texts, str) else list(texts)
    if len(texts) != rows:
        raise ValueError(
            f"There must be a text for each vector. Received: {len(texts)} texts and {rows} vectors"
        )
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(
                "Texts must be str; write ids as str too. Received: a "
                f"{type(text).__name__} in row {row}"
            )
    return texts


def _check_options(options: Mapping[str, Any] | None) -> None:
    """Raise `ValueError` for options that cannot be written as JSON."""
    try:
        json.dumps(None if options is None else dict(options), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`options` must be JSON values ({error}). Received: {options!r}"
        ) from None
