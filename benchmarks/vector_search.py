"""Seconds, memory and recall of searches among a million vectors, in each number format.

    python -m benchmarks.vector_search [--rows 1000000] [--size 384] [--queries 1000]
        [--precisions NAME …] [--graphs VECTORS/GRAPH …] [--folder DIR] [--quick] [--out FILE.json]

The vectors are random and in clusters, with 64 directions of variation. Each number format has a
process of its own, which opens an index that is memory-mapped. It compares all vectors, for all
queries at once and for one query at a time, and then searches graphs, "VECTORS/GRAPH" by the number
formats of the index and of the graph. Processor seconds are the sum over all threads. Other
programs on the machine change them less than seconds by the clock. Recall is the share of the
ten nearest float32 vectors that are found. Memory is the peak of the process's own (anonymous)
memory while it searches, beyond its memory before. Pages of the mapped file are not counted,
because the system drops them when memory is short.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import report
from bert_keras.retrieval import Nearest, VectorIndex
from bert_keras.retrieval.quantization import PRECISIONS

PACKAGES = ("bert-keras", "numpy", "usearch")
FLOAT32 = "float32"
TOP_K = 10
_DIRECTIONS, _IN_A_CLUSTER = 64, 100
_BLOCK = 10_000  # vectors that are made at once
_ONE_BY_ONE = 5  # queries for the seconds of a single query
_RESCORE = (4, 16)  # candidates for each of the ten, of single bits and of graphs
GRAPHS = ("float32/float32", "int8/int8", "int8/ubinary", "ubinary/ubinary")


def vectors(rows: int, size: int, seed: int = 0) -> Iterator[np.ndarray]:
    """Yield blocks of random vectors in clusters, float32 [block, size].

    Args:
        rows: number of vectors in all.
        size: numbers of a vector.
        seed: seed of the vectors; the clusters are those of 0.
    """
    shared = np.random.default_rng(0)
    centres = shared.standard_normal((max(2, rows // _IN_A_CLUSTER), _DIRECTIONS), np.float32)
    directions = shared.standard_normal((_DIRECTIONS, size), np.float32) / _DIRECTIONS**0.5
    for start in range(0, rows, _BLOCK):
        draw = np.random.default_rng((seed, start))
        count = min(_BLOCK, rows - start)
        places = centres[draw.integers(len(centres), size=count)]
        places = places + 0.6 * draw.standard_normal((count, _DIRECTIONS), np.float32)
        yield places @ directions + 0.1 * draw.standard_normal((count, size), np.float32)


def queries_of(rows: int, size: int, count: int) -> np.ndarray:
    """Return queries near the vectors: float32 [count, size]."""
    return next(vectors(rows, size, seed=1))[:count]


def measure(
    folder: Path, queries: np.ndarray, graphs: Sequence[str], nearest: Path
) -> dict[str, Any]:
    """Measure the searches of a saved index in this process.

    Args:
        folder: folder of the index.
        queries: float32 [queries, size].
        graphs: number formats of the graphs to build and search.
        nearest: file of the nearest float32 vectors, which an index of float32 writes.

    Returns:
        "megabytes" of the vectors, figures of each way of searching, and of the graphs.
    """
    index = VectorIndex.load(folder)
    ways: dict[str, Any] = {}
    for rescore in _RESCORE if index.precision == "ubinary" else (1,):
        way = f"all, rescore={rescore}" if rescore > 1 else "all"
        ways[way] = _searches(index, queries, rescore, True, nearest)
    figures: dict[str, Any] = {"megabytes": index.vectors.nbytes / 1e6, "ways": ways}
    for precision in graphs:
        graph, busy = time.perf_counter(), time.process_time()
        index.build_graph(precision=precision, progress=_shown)
        spent = {
            "seconds": time.perf_counter() - graph,
            "processor_seconds": time.process_time() - busy,
        }
        index.save(folder)
        size = (folder / "graph.usearch").stat().st_size
        figures[f"graph of {precision}"] = {**spent, "megabytes": size / 1e6}
        index = VectorIndex.load(folder)
        for rescore in _RESCORE:
            way = f"graph of {precision}, rescore={rescore}"
            ways[way] = _searches(index, queries, rescore, False, nearest)
    return figures


def _searches(
    index: VectorIndex, queries: np.ndarray, rescore: int, exact: bool, nearest: Path
) -> dict[str, float]:
    """Return seconds, memory and recall of one way of searching."""

    def search(some: np.ndarray) -> Nearest:
        return index.search(some, TOP_K, exact=exact, rescore=rescore)

    search(queries[:1])  # opens the file of a graph
    begin, busy = time.perf_counter(), time.process_time()
    found, megabytes = with_memory(lambda: search(queries))
    seconds, processor = time.perf_counter() - begin, time.process_time() - busy
    if exact and index.precision == FLOAT32:
        np.save(nearest, found.indices)
    begin, busy = time.perf_counter(), time.process_time()
    for row in range(_ONE_BY_ONE):
        search(queries[row : row + 1])
    return {
        "seconds_per_1000": 1000 * seconds / len(queries),
        "processor_seconds_per_1000": 1000 * processor / len(queries),
        "seconds_of_one": (time.perf_counter() - begin) / _ONE_BY_ONE,
        "processor_seconds_of_one": (time.process_time() - busy) / _ONE_BY_ONE,
        "megabytes": megabytes,
        "recall": recall(found.indices, np.load(nearest)),
    }


def recall(found: np.ndarray, nearest: np.ndarray) -> float:
    """Return the share of the nearest vectors that are found, both int64 [queries, k]."""
    pairs = zip(found.tolist(), nearest.tolist(), strict=True)
    return sum(len(set(some) & set(best)) for some, best in pairs) / nearest.size


def with_memory(run: Callable[[], Nearest]) -> tuple[Nearest, float]:
    """Run a search, and return its answer and the peak of its anonymous memory in megabytes."""
    before, highest, is_over = anonymous_bytes(), [0], threading.Event()

    def watch() -> None:
        while not is_over.wait(0.005):
            highest[0] = max(highest[0], anonymous_bytes())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        answer = run()
    finally:
        is_over.set()
        thread.join()
    return answer, max(0, max(highest[0], anonymous_bytes()) - before) / 1e6


def anonymous_bytes() -> int:
    """Return the resident memory of this process without mapped files, in bytes."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("RssAnon:")[1].split()[0]) * 1024


def _shown(done: int, total: int) -> None:
    if done == total or done % (20 * 8192) == 0:
        print(f"graph: {done:,} of {total:,} vectors", file=sys.stderr, flush=True)


_CHILD = """
import json, sys
from pathlib import Path
from benchmarks.vector_search import measure, queries_of
folder, rows, size, count, graphs, nearest = json.loads(sys.argv[1])
figures = measure(Path(folder), queries_of(rows, size, count), graphs, Path(nearest))
print(json.dumps(figures))
"""


def run_in_process(
    folder: Path, sizes: tuple[int, int, int], graphs: Sequence[str], nearest: Path
) -> Any:
    """Measure an index in a process of its own; see `measure`.

    Args:
        folder: folder of the index.
        sizes: numbers of vectors, of numbers in a vector, and of queries.
        graphs: number formats of the graphs to build and search.
        nearest: file of the nearest float32 vectors.
    """
    words = json.dumps([str(folder), *sizes, graphs, str(nearest)])
    command = [sys.executable, "-c", _CHILD, words]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def show(results: dict[str, Any], console: Console) -> None:
    """Print a table with a line for each number format and way of searching."""
    table = Table("vectors", "MB", "search", title="Search of vectors")
    for heading in ("CPU s, 1,000", "CPU ms, one", "MB beyond", f"recall@{TOP_K}"):
        table.add_column(heading, justify="right")
    for precision, figures in results.items():
        for way, row in figures["ways"].items():
            cells = (
                f"{row['processor_seconds_per_1000']:.2f}",
                f"{1000 * row['processor_seconds_of_one']:.1f}",
                f"{row['megabytes']:.0f}",
                f"{row['recall']:.3f}",
            )
            table.add_row(precision, f"{figures['megabytes']:,.0f}", way, *cells)
    console.print(table)


def main() -> None:
    """Write the indexes, measure them one after the other, and print and write the figures."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.vector_search", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--rows", type=int, default=1_000_000, help="number of vectors")
    parser.add_argument("--size", type=int, default=384, help="numbers of a vector")
    parser.add_argument("--queries", type=int, default=1000)
    formats = (FLOAT32, "int8", "ubinary")
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=formats)
    parser.add_argument("--graphs", nargs="*", choices=GRAPHS, default=GRAPHS)
    parser.add_argument("--folder", type=Path, help="folder for the indexes, instead of /tmp")
    parser.add_argument("--quick", action="store_true", help="3,000 vectors of 64 numbers")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    options, console = parser.parse_args(), Console()
    sizes = (3000, 64, 50) if options.quick else (options.rows, options.size, options.queries)
    facts: dict[str, Any] = {"rows": sizes[0], "size": sizes[1], "queries": sizes[2]}
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        nearest = Path(scratch, "nearest.npy")
        # The vectors of float32 come first: the others are compared with them.
        for precision in dict.fromkeys((FLOAT32, *options.precisions)):
            blocks = ((block, None) for block in vectors(*sizes[:2]))
            folder = Path(scratch, precision)
            begin = time.perf_counter()
            VectorIndex.write(folder, blocks, precision=precision)
            written = time.perf_counter() - begin
            console.print(f"{precision}: written in {written:.1f} s")
            pairs = [pair.split("/") for pair in options.graphs]
            graphs = [graph for of, graph in pairs if of == precision]
            figures = run_in_process(folder, sizes, graphs, nearest)
            results[precision] = figures
            show({precision: figures}, console)
            command = report.command("vector_search", sys.argv[1:])
            report.write(options.out, command, PACKAGES, **facts, results=results)
    show(results, console)


if __name__ == "__main__":
    main()
