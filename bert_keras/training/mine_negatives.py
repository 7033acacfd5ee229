"""Find hard negatives: texts that are near to a query, and do not answer it.

    bert-keras mine-negatives MODEL PAIRS out=FILE [key=value …]

MODEL makes the vectors: the folder of a run, a checkpoint folder, a name of PRESETS, or
hf://organisation/name. PAIRS is a table of queries and right answers: .csv, .tsv, .jsonl or
.parquet.

    out=                  file to write: .csv, .tsv or .jsonl, which fine-tuning reads
    overwrite=false       replace the file of out=
    text=text             column or key of the query
    pair=pair             column or key of the right answer
    corpus=               more texts to choose negatives from: a table, or lines in a .txt file; the
                          right answers are always among them
    corpus_text=text      column or key of the text in a table of corpus=
    form=columns          columns: a row for each pair, with a column for each negative, of the
                          pairs with enough of them; triplets: a row for each negative
    scores=false          write the scores of answer and negatives too
    num_negatives=3       negatives for each pair
    sampling=top          top: the nearest candidates; random: draw from the candidates by seed=
    seed=0                seed of sampling=random
    range_min=0           nearest candidates to skip
    range_max=0           rank of the last candidate to choose from; 0: as many as are needed
    max_score=            highest score of a negative: a cosine, a dot product if the model
                          has it as its similarity, or the score of cross_encoder=
    min_score=            lowest score of a negative
    absolute_margin=      leave out candidates that score less than this below the right answer
    relative_margin=      the same as a share of the right answer's score, such as 0.05
    cross_encoder=        model that scores the candidates for the limits of scores; empty: vectors
    vectors=float16       number format of the corpus's vectors: float32, float16 or int8
    cache=                folder for vectors and scores, which other limits and a command that is
                          repeated after a kill use again; empty: OUT.vectors
    format=               tsv, csv, jsonl or parquet; empty: by the ending of each file
    header=true           a table names its columns; else they are numbers from 0
    quoting=auto          fields of a table may be in quotes; auto: in CSV alone
    separator=            separator of the columns; empty: comma in CSV, tab in TSV
    encoding=utf-8        text encoding of the files
    max_length=0          most tokens of a text; 0: what the model's folder says
    long_texts=           longer texts: truncate, or windows, which reads all; empty: truncate, and
                          say how many texts were cut
    batch_size=32         texts in a batch
    precision=            Keras dtype policy, such as mixed_bfloat16; empty: float32
    device=               device that computes: cpu, gpu, gpu:1, …; empty: the backend's default
    allow_pickle=false    read a pytorch_model.bin where there is no other
    variant=              variant of the weights, such as fp16: model.fp16.safetensors
    averages=false        read the moving averages in a TensorFlow checkpoint
    trust=false           read the variables of a SavedModel of Google's

Examples:
    bert-keras mine-negatives runs/my_vectors pairs.csv text=question pair=answer
                              relative_margin=0.05 out=mined.csv
    bert-keras mine-negatives hf://sentence-transformers/all-MiniLM-L6-v2 pairs.jsonl
                              corpus=passages.txt cross_encoder=my_ranker max_score=0.5
                              num_negatives=1 out=triplets.jsonl

Texts are in memory, vectors in files. The same command writes the same bytes.
Exit codes: 0 done, 2 bad arguments, 3 bad texts, 4 a damaged model, 5 no space.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bert_keras import escaping, features, file_io
from bert_keras.errors import ArtifactError, DataError, UsageError
from bert_keras.retrieval import MinedNegatives, NegativeLimits
from bert_keras.training import progress
from bert_keras.training.program_inputs import (
    number_of,
    open_predictor,
    reading_of,
    weights_of,
)
from bert_keras.training.recipe_files import parse_overrides, require_no_flags
from bert_keras.training.run import run

_LIMITS = ("max_score", "min_score", "absolute_margin", "relative_margin")
_EMPTY = (
    "out",
    "corpus",
    "cross_encoder",
    "cache",
    "format",
    "separator",
    "long_texts",
    "precision",
)
_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys((*_EMPTY, *_LIMITS, "device"), ""),
    "overwrite": False,
    "text": "text",
    "pair": "pair",
    "corpus_text": "text",
    "form": "columns",
    "scores": False,
    "num_negatives": 3,
    "sampling": "top",
    "seed": 0,
    "range_min": 0,
    "range_max": 0,
    "vectors": "float16",
    "header": True,
    "quoting": "auto",
    "encoding": "utf-8",
    "max_length": 0,
    "batch_size": 32,
    "allow_pickle": False,
    "trust": False,
    "variant": "",
    "averages": False,
}
# Values that change the vectors of a text.
_ENCODING = ("max_length", "long_texts", "batch_size", "precision", "device", "variant", "averages")
_KEY = re.compile(r"[a-z_]+=")
_EXAMPLES, _WIDTH = 3, 100  # pairs in the summary, and characters of their texts


def main(arguments: list[str]) -> int:
    """Run the program; return the exit code."""
    require_no_flags([word for word in arguments if re.match("-[-a-z]", word)], list(_DEFAULTS))
    words = [word for word in arguments if not _KEY.match(word)]
    if len(words) != 2:
        raise UsageError(
            "A model and a file of pairs are needed. Write: bert-keras mine-negatives MODEL PAIRS "
            f"out=FILE [key=value …]. Received: {' '.join(arguments) or 'no arguments'}"
        )
    model, source = words
    values = parse_overrides([word for word in arguments if _KEY.match(word)], _DEFAULTS)
    limits = _limits(values)
    _check(values)
    # Keras and its backend take seconds to import: not for a bad command line.
    from bert_keras.predictor import require_new, write
    from bert_keras.training.finetuned_model import require_apart

    if not values["out"]:
        raise UsageError("out= is missing. Give out=FILE, which ends with .csv, .tsv or .jsonl.")
    out = file_io.expanded(values["out"])
    require_new(out, overwrite=values["overwrite"])
    require_apart(out, [source, *filter(None, [values["corpus"]])])
    pairs = _read_pairs(source, values)
    corpus = _read_corpus(values) if values["corpus"] else None
    cache = file_io.expanded(values["cache"] or f"{values['out']}.vectors")
    mined = _mine(model, pairs, corpus, limits, cache, values)
    rows = list(_rows(mined, limits.num_negatives, values))
    if not rows:
        raise DataError(
            f"{source}: no pair has {_enough(limits, values)}. Left out: {_left_out(mined)}. Widen "
            "the limits, or give a larger corpus=."
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    count = write(out, iter(rows))
    _print_summary(source, mined, limits, values)
    size = sum(file.stat().st_size for file in cache.iterdir()) / 1e6
    print(f"{out}: {count:,} rows")
    print(f"{cache}: {size:,.1f} MB of vectors for other limits; remove the folder if not needed")
    print(f"Fine-tune: {_next_command(out, list(rows[0]), model)}")
    return 0


# === Arguments ===


def _limits(values: dict[str, Any]) -> NegativeLimits:
    """Return the limits of the command line."""
    numbers: dict[str, Any] = {name: number_of(name, values[name], finite=True) for name in _LIMITS}
    whole: dict[str, Any] = {
        name: values[name] for name in ("num_negatives", "range_min", "seed", "sampling")
    }
    try:
        return NegativeLimits(**whole, **numbers, range_max=values["range_max"] or None)
    except ValueError as error:
        raise UsageError(str(error).replace("`", "")) from error


def _check(values: dict[str, Any]) -> None:
    """Raise `UsageError` for the first bad value, before any file is read."""
    for name, choices in (
        ("form", ("columns", "triplets")),
        ("vectors", ("float32", "float16", "int8")),
        ("long_texts", ("", "truncate", "windows")),
    ):
        if values[name] not in choices:
            words = ", ".join(filter(None, choices))
            raise UsageError(f"{name} must be one of {words}. Received: {name}={values[name]}")
    if values["cross_encoder"] and not any(values[name] for name in _LIMITS):
        raise UsageError(
            "cross_encoder= leaves candidates out by a limit of their scores. Give one of "
            f"{', '.join(f'{name}=' for name in _LIMITS)}."
        )


# === Texts ===


def _read_table(path: str, text: str, pair: str | None, values: dict[str, Any]) -> Any:
    """Return the texts of a table; raise `UsageError` for options that do not fit the file."""
    from bert_keras.data import read_table
    from bert_keras.predictor import column_of

    second = None if pair is None else column_of(pair)
    try:
        return read_table(
            file_io.expanded(path), text=column_of(text), pair=second, **reading_of(values)
        )
    except (DataError, UsageError):
        raise
    except (ValueError, ImportError) as error:
        raise UsageError(str(error)) from error


def _read_pairs(path: str, values: dict[str, Any]) -> Any:
    """Return the pairs of a file as `Texts`; no text may be empty."""
    pairs = _read_table(path, values["text"], values["pair"], values)
    for column, texts in ((values["text"], pairs.texts), (values["pair"], pairs.pairs)):
        if empty := [p for p, text in zip(pairs.places, texts, strict=True) if not text.strip()]:
            rows = f"in {len(empty):,} rows. Remove such rows."
            raise DataError(f"{empty[0]}: {column!r} is empty, {rows}")
    return pairs


def _read_corpus(values: dict[str, Any]) -> list[str]:
    """Return the different texts of corpus=: those of a table, or the lines of a .txt file."""
    from bert_keras.predictor import file_lines

    name = values["corpus"]
    path = file_io.expanded(name)
    if path.name.lower().removesuffix(".gz").endswith(".txt") and not values["format"]:
        texts = filter(None, (line.strip() for line in file_lines(path)))
    else:
        texts = _read_table(name, values["corpus_text"], None, values).texts
    corpus = list(dict.fromkeys(texts))
    if not corpus:
        raise DataError(f"{path}: no texts. Name a file with at least one.")
    return corpus


# === Models ===


def _mine(
    model: str,
    pairs: Any,
    corpus: list[str] | None,
    limits: NegativeLimits,
    cache: Path,
    values: dict[str, Any],
) -> MinedNegatives:
    """Open the models, and find the negatives."""
    import keras

    from bert_keras.retrieval import mine_hard_negatives
    from bert_keras.training.finetuned_model import cut_texts_told
    from bert_keras.training.input_digests import checkpoint_digests

    predictor = _open(model, values)
    ranker = _open_cross_encoder(values) if values["cross_encoder"] else None
    options = getattr(predictor.task, "options", {})
    is_dot = options.get("similarity") == "dot" and values["vectors"] != "int8"

    def key(handle: str) -> str:
        """Return a text that names the files of a model, and what changes its numbers."""
        options = {name: values[name] for name in _ENCODING}
        digests = checkpoint_digests(handle, **weights_of(values))
        return json.dumps([digests, keras.backend.backend(), options])

    with cut_texts_told(predictor), progress.task("mining") as show:
        if ranker is not None:
            ranker.on_cut = predictor.on_cut
        try:
            return mine_hard_negatives(
                predictor,
                pairs.texts,
                pairs.pairs,
                corpus=corpus,
                limits=limits,
                cross_encoder=ranker,
                similarity="dot" if is_dot else "cosine",
                precision=values["vectors"],
                folder=cache,
                key=key(model),
                cross_encoder_key=key(values["cross_encoder"]) if ranker else "",
                progress=show,
            )
        except (ArtifactError, DataError, UsageError):
            raise
        except ValueError as error:
            raise UsageError(f"{model}: {error}") from error


def _open(handle: str, values: dict[str, Any]) -> Any:
    """Open the predictor of a model, with long_texts= of the command line."""
    predictor = open_predictor(handle, values)
    if values["long_texts"]:
        predictor.options = {**predictor.options, "long_texts": values["long_texts"]}
    return predictor


def _open_cross_encoder(values: dict[str, Any]) -> Any:
    """Open the predictor of cross_encoder=; raise `UsageError` for a model of another kind."""
    ranker = _open(values["cross_encoder"], values)
    classes = ranker.task.options.get("num_classes", "no")
    if features.SCORE not in ranker.task.output and classes != 1:
        raise UsageError(
            f"cross_encoder={values['cross_encoder']}: a TextRanker, or a SequenceClassifier with "
            f"one class, is needed. Received: a {type(ranker.task).__name__} with {classes} classes"
        )
    return ranker


# === Results ===


def _rows(
    mined: MinedNegatives, num_negatives: int, values: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table: names of columns to texts and scores."""
    is_named = values["header"] or values["format"] == "jsonl"
    query, answer = (values["text"], values["pair"]) if is_named else ("text", "pair")
    is_triplets = values["form"] == "triplets"
    columns = zip(mined.queries, mined.answers, mined.negatives, mined.scores, strict=True)
    for first, second, negatives, scores in columns:
        pair = {query: first, answer: second}
        shown = [round(score, 6) for score in scores]
        if is_triplets:
            for negative, score in zip(negatives, shown[1:], strict=True):
                more = {"answer_score": shown[0], "negative_score": score}
                yield {**pair, "negative": negative, **(more if values["scores"] else {})}
        elif len(negatives) == num_negatives:
            names = [f"negative_{number}" for number in range(1, num_negatives + 1)]
            row = pair | dict(zip(names, negatives, strict=True))
            if values["scores"]:
                names = ["answer_score", *(f"{name}_score" for name in names)]
                row |= dict(zip(names, shown, strict=True))
            yield row


def _enough(limits: NegativeLimits, values: dict[str, Any]) -> str:
    """Return the number of negatives that a pair needs for a row, in words."""
    return "a negative" if values["form"] == "triplets" else f"{limits.num_negatives} negatives"


def _left_out(mined: MinedNegatives) -> str:
    """Return the reasons why candidates were left out, with their numbers."""
    parts = [f"{count:,} by {name}" for name, count in mined.left_out.items()]
    return ", ".join(parts).replace("by right answer", "right answers")


def _print_summary(
    source: str, mined: MinedNegatives, limits: NegativeLimits, values: dict[str, Any]
) -> None:
    """Print how many pairs got negatives, why candidates were left out, and some pairs."""
    sizes = Counter(map(len, mined.negatives))
    counts = [f"{sizes[size]:,} with {size}" for size in sorted(sizes, reverse=True)]
    escaping.print_line(
        f"{source}: {len(mined.queries):,} pairs, by number of negatives: {', '.join(counts)}"
    )
    if any(size < limits.num_negatives for size in sizes) and values["form"] == "columns":
        print(f"Only pairs with {limits.num_negatives} negatives are written; see form=triplets")
    print(f"Candidates left out: {_left_out(mined)}")
    right = float(np.mean([scores[0] for scores in mined.scores]))
    wrong = float(np.mean([score for scores in mined.scores for score in scores[1:]]))
    print(f"Mean scores: right answers {right:.3f}, negatives {wrong:.3f}")
    shown = [row for row, negatives in enumerate(mined.negatives) if negatives][:_EXAMPLES]
    for row in shown:
        escaping.print_line(_short(mined.queries[row]))
        texts = [mined.answers[row], *mined.negatives[row]]
        for sign, text, score in zip(
            "+" + "-" * len(texts), texts, mined.scores[row], strict=False
        ):
            escaping.print_line(f"  {sign} {score:.3f}  {_short(text)}")


def _short(text: str) -> str:
    """Return the beginning of a text in one line."""
    line = " ".join(text.split())
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"


def _next_command(out: Path, columns: list[str], model: str) -> str:
    """Return the command that fine-tunes on the written table."""
    negatives = [name for name in columns[2:] if not name.endswith("_score")]
    words = ["bert-keras", "finetune", "retrieval", f"train={out}", f"text={columns[0]}"]
    words += [f"pair={columns[1]}", f"negatives={','.join(negatives)}", f"encoder={model}"]
    if out.suffix.lower() == ".tsv":  # quotes hold line ends and tabs
        words.append("quoting=true")
    return shlex.join(words)


if __name__ == "__main__":
    run(main)
