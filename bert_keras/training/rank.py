"""Rank documents for a query with a cross-encoder, or with any encoder of sentence vectors.

    bert-keras rank MODEL QUERY DOCUMENTS [key=value …]

MODEL is the folder of a run, a checkpoint folder, or hf://organisation/name. QUERY is a text in
quotes, or a file of queries. DOCUMENTS is a file, or - for standard input. A file is a table (.csv,
.tsv, .parquet), or lines: a text or a JSON object each.

    out=                  file to write: .csv, .tsv or .jsonl, with a row for each query and each of
                          its best documents; without it, a table is printed for each query
    overwrite=false       replace the file of out=
    top_k=10              number of documents to return for each query; 0: all
    query=text            column or key of the query
    document=text         column or key of the document
    format=               tsv, csv, jsonl, parquet or label_text; empty: by the file's ending
    header=true           a table names its columns; else they are numbers from 0
    quoting=auto          fields of a table may be in quotes; auto: in CSV alone
    separator=            separator of the columns of a table; empty: comma in CSV, tab in TSV
    encoding=utf-8        text encoding of tables
    max_length=0          most tokens of a text or pair; 0: what the model's folder says
    long_texts=           longer texts: truncate, or windows, which reads all; empty: as in
                          training, else truncate, and say how many texts were cut
    stride=0              tokens from the start of one window to the next; 0: three quarters of a
                          window
    batch_size=32         texts in a batch
    precision=            Keras dtype policy, such as bfloat16 or mixed_bfloat16; empty: float32
    device=               device that computes: cpu, gpu, gpu:1, …; empty: the backend's default
    prompt_name=          put the model's prompt of this name before each query
    allow_pickle=false    read a pytorch_model.bin where there is no other
    variant=              variant of the weights, such as fp16: model.fp16.safetensors
    averages=false        read the moving averages in a TensorFlow checkpoint
    trust=false           read the variables of a SavedModel of Google's

Examples:
    bert-keras rank hf://cross-encoder/ms-marco-MiniLM-L6-v2 "Where is Oslo?" passages.txt
    bert-keras rank runs/ranker queries.tsv passages.jsonl query=question out=ranked.jsonl top_k=100

Exit codes: 0 done, 2 bad arguments, 3 bad examples, 4 a damaged model, 5 no space.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from bert_keras import escaping, features, file_io
from bert_keras.errors import DataError, UsageError
from bert_keras.training import progress
from bert_keras.training.program_inputs import (
    input_rows,
    is_text,
    open_predictor,
    reading_of,
)
from bert_keras.training.recipe_files import parse_overrides, require_no_flags
from bert_keras.training.run import run

_DEFAULTS: dict[str, Any] = {
    "out": "",
    "overwrite": False,
    "top_k": 10,
    "query": "text",
    "document": "text",
    "format": "",
    "header": True,
    "quoting": "auto",
    "separator": "",
    "encoding": "utf-8",
    "max_length": 0,
    "long_texts": "",
    "stride": 0,
    "batch_size": 32,
    "precision": "",
    "device": "",
    "prompt_name": "",
    "allow_pickle": False,
    "trust": False,
    "variant": "",
    "averages": False,
}
_OPTIONS = ("top_k", "prompt_name", "long_texts", "stride")  # arguments of `Predictor.rank`
_KEY = re.compile(r"[a-z_]+=")
_USAGE = "Write: bert-keras rank MODEL QUERY DOCUMENTS [key=value …]."
_DIGITS = 6  # decimal places of scores


def main(arguments: list[str]) -> int:
    """Run the program; return the exit code."""
    require_no_flags([word for word in arguments if re.match("-[-a-z]", word)], list(_DEFAULTS))
    words = [word for word in arguments if not _KEY.match(word)]
    values = parse_overrides([word for word in arguments if _KEY.match(word)], _DEFAULTS)
    if len(words) != 3 or "" in words:
        raise UsageError(
            f"The model, the query and the documents are needed. {_USAGE} "
            f"Received: {len(words)} of them"
        )
    if is_text(words[2]):
        raise UsageError(f"{words[2]}: no such file of documents. {_USAGE}")
    if words[1] == "-":
        raise UsageError(f"Standard input is for the documents. Name a file of queries. {_USAGE}")
    if values["top_k"] < 0:
        raise UsageError(f"top_k must be at least 0. Received: top_k={values['top_k']}")
    model, query, source = words
    return _rank(model, query, source, values)


def _rank(model: str, query: str, source: str, values: dict[str, Any]) -> int:
    """Rank the documents; print tables, or write records to `out`. Return the exit code."""
    # Keras and its backend take seconds to import: not for a bad command line.
    from bert_keras.predictor import require_new, write
    from bert_keras.training.finetuned_model import cut_texts_told, require_apart

    out = file_io.expanded(values["out"]) if values["out"] else None
    if out is not None:
        require_new(out, overwrite=values["overwrite"])
        require_apart(out, [word for word in (query, source) if word != "-"])
    reading = reading_of(values)
    queries = _texts(query, values["query"], reading)
    if source == "-" and sys.stdin.isatty():
        print("Reading documents from the terminal. Ctrl+D ends.", file=sys.stderr)
    documents = _texts(source, values["document"], reading)
    predictor = open_predictor(model, values)
    options = {name: values[name] or None for name in _OPTIONS}
    with cut_texts_told(predictor), progress.task("ranking") as show:
        rankings = _rankings(predictor, queries, documents, show, **options)
        if out is None:
            for text, ranked in zip(queries, rankings, strict=True):
                _print(text, ranked)
            return 0
        out.parent.mkdir(parents=True, exist_ok=True)
        count = write(out, _records(queries, rankings))
    print(f"{count:,} documents for {len(queries):,} queries: {out}")
    return 0


def _texts(word: str, column: str, reading: dict[str, Any]) -> list[str]:
    """Return the texts of a word of the command line: a file, or the text itself.

    Raises:
        DataError: a bad row, or none.
    """
    rows = input_rows(word, ("text", "pair"), {"text": column}, reading, name="the query")
    texts = [row.values[0] for row in rows]
    if not texts:
        raise DataError(f"{word}: no texts. Name a file with one text at least.")
    return texts


def _rankings(
    predictor: Any, queries: Sequence[str], documents: Sequence[str], show: Any, **options: Any
) -> Iterator[list[Any]]:
    """Yield the best documents of each query.

    A cross-encoder reads each query with all documents. Vectors of documents are made once.

    Raises:
        UsageError: the model does not rank.
    """
    is_cross_encoder = bool({features.SCORE, features.LABEL} & set(predictor.task.output))
    parts = [[query] for query in queries] if is_cross_encoder else [queries]
    for number, part in enumerate(parts):

        def told(done: int, total: int, before: int = number) -> None:
            """Show how many rows of all queries are done."""
            show(before * total + done, len(parts) * total, "")

        predictor.progress = told
        try:
            yield from predictor.rank(part, documents, **options)
        except DataError:
            raise
        except ValueError as error:
            raise UsageError(str(error)) from error


def _records(queries: Sequence[str], rankings: Iterator[list[Any]]) -> Iterator[dict[str, Any]]:
    """Yield a record for each query and each of its best documents."""
    for query, ranked in zip(queries, rankings, strict=True):
        for rank, each in enumerate(ranked, 1):
            score = round(each.score, _DIGITS)
            yield {
                "query": query,
                "rank": rank,
                "score": score,
                "index": each.index,
                "text": each.text,
            }


def _print(query: str, ranked: Sequence[Any]) -> None:
    """Print a table of the best documents of a query."""
    from rich.table import Table

    table = Table(title=escaping.printable(query), title_justify="left", box=None)
    table.add_column("rank", justify="right")
    table.add_column("score", justify="right")
    table.add_column("text")
    for rank, each in enumerate(ranked, 1):
        table.add_row(str(rank), f"{each.score:.4f}", escaping.printable(each.text))
    escaping.console().print(table)


if __name__ == "__main__":
    run(main)
