"""Held-out loss of recipes that train for the same seconds on the same text, with several seeds.

    python -m benchmarks.pretraining_recipes --corpus FILES --folder FOLDER --seconds 3240
        [--seeds 0 1 2] [--only RECIPE …] [--quick] [--out recipes.json]

The recipes are wiki_mini, wiki_mini with loss=mlm, and modern_mini. The text is prepared once, with
one vocabulary. A short run of each recipe measures the seconds of a step; from it follow the steps
of its runs, and so its whole schedule fits into the seconds. All runs end with the loss of masked
tokens on the same validation examples: one segment, 15 % of the tokens masked. Run it on a machine
without other work.

FOLDER keeps a run of one text for each recipe and seed. The same command goes on after a stop:
finished runs are not repeated, and a run that was stopped continues at its last checkpoint.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.pretraining_curve import run_program
from bert_keras import file_io

PACKAGES = ("bert-keras", "keras", "tensorflow", "jax", "torch")
# Words of a table -> recipe, and the values that differ from it.
RECIPES: dict[str, tuple[str, dict[str, Any]]] = {
    "wiki_mini": ("wiki_mini", {}),
    "wiki_mini, loss=mlm": ("wiki_mini", {"loss": "mlm"}),
    "modern_mini": ("modern_mini", {}),
}
TEXT = {"validation_split": 0.06, "vocab_size": 16_000}
_REPORT = 50  # steps of a report
_PROBE = 100  # steps of the run that measures a step; the first report is left out
# Nothing but training takes time within a run: it has one evaluation, at its end.
_RUN = {"export": "false", "log_every": _REPORT, "evaluate_every": 10**6, "eval_examples": 32}
_QUICK_TEXT = {"validation_split": 0.08, "vocab_size": 1_000}
_QUICK = {"hidden_size": 32, "num_layers": 2, "num_heads": 2, "intermediate_size": 64}
_QUICK |= {"sequence_length": 32, "warmup_steps": 2, "batch_size": 8}

Result = dict[str, float]


def steps_in(seconds: float, seconds_per_step: float) -> int:
    """Return the number of steps that fit into the seconds, a multiple of those of a report."""
    return max(1, int(seconds / seconds_per_step / _REPORT)) * _REPORT


def measured_step(run: Path) -> float:
    """Return the median seconds of a step of a run, without its first report."""
    from bert_keras.resume import MetricsLog  # imports Keras, which this process needs only here

    records = list(MetricsLog(run / "speed.jsonl").records())
    return statistics.median(record["seconds"] for record in records[1:]) / _REPORT


def seconds_of(run: Path) -> float:
    """Return the seconds that all steps of a run took."""
    from bert_keras.resume import MetricsLog

    return sum(record["seconds"] for record in MetricsLog(run / "speed.jsonl").records())


def heldout_loss(run: Path, corpus: Path, length: int, batch_size: int = 32) -> float:
    """Return the loss in nats of masked tokens on all validation examples of one segment.

    Args:
        run: folder of a run.
        corpus: folder of the prepared corpus.
        length: tokens of an example.
        batch_size: examples of a batch.
    """
    from bert_keras import MaskedLM
    from bert_keras.data import SPLIT_FOLDERS, Corpus, PretrainingExamples, dataset

    task = MaskedLM.from_preset(run, allow_unused=("nsp", "pooler"))
    examples = PretrainingExamples(
        Corpus.open(corpus / SPLIT_FOLDERS["validation"]),
        task.tokenizer,
        sequence_length=length,
        batch_size=batch_size,
        loss="mlm",
        seed=0,
    )
    task.compile(**task.loss_and_metrics())
    figures: Any = task.evaluate(dataset(examples), verbose=0, return_dict=True)
    return float(figures["loss"])


def result_of(
    words: str, seed: int, corpus: Path, folder: Path, seconds: float, more: Mapping[str, Any]
) -> Result:
    """Train a recipe with a seed, and return its result; a finished run is only read.

    Args:
        words: a key of `RECIPES`.
        seed: seed of the run.
        corpus: folder of the prepared corpus.
        folder: folder of all runs.
        seconds: seconds of training.
        more: values of the recipe that are the same in all runs.

    Returns:
        "loss", "steps", "seconds" and "seed".
    """
    recipe, values = RECIPES[words]
    name = recipe if not values else f"{recipe}_{'_'.join(values.values())}"
    run = folder / f"{name}-{seconds:g}s-seed{seed}"
    file = folder / f"{run.name}.json"
    if file.is_file():
        return file_io.read_object(file)
    common = {**_RUN, **more, **values, "corpus": corpus}
    probe = folder / f"{name}-probe"
    if not (probe / "model.safetensors").is_file():
        run_program("training.pretrain", {**common, "steps": _PROBE, "out": probe}, recipe)
    steps = steps_in(seconds, measured_step(probe))
    length = int(more.get("sequence_length", 128))
    run_program("training.pretrain", {**common, "steps": steps, "seed": seed, "out": run}, recipe)
    result = {
        "seed": seed,
        "steps": steps,
        "seconds": seconds_of(run),
        "loss": heldout_loss(run, corpus, length),
    }
    file_io.write_json(file, result)
    return result


def show(results: Mapping[str, Sequence[Result]], console: Console) -> None:
    """Print a row for each recipe: the loss of each seed, their mean, steps and seconds."""
    table = Table("recipe", title="loss of masked tokens in nats, on the same validation examples")
    seeds = [result["seed"] for result in next(iter(results.values()))]
    for heading in (*(f"seed {seed:g}" for seed in seeds), "mean", "steps", "seconds"):
        table.add_column(heading, justify="right")
    for words, runs in results.items():
        losses = [result["loss"] for result in runs]
        cells = [f"{loss:.3f}" for loss in (*losses, statistics.fmean(losses))]
        for key, form in (("steps", "{:,.0f}"), ("seconds", "{:,.0f}")):
            cells.append(form.format(statistics.fmean(result[key] for result in runs)))
        table.add_row(words, *cells)
    console.print(table)


def main() -> None:
    """Prepare the text, train all recipes and seeds that are missing, and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pretraining_recipes",
        description=(__doc__ or "").splitlines()[0],
    )
    parser.add_argument("--corpus", help="the text: enwiki_20MB.txt")
    parser.add_argument("--folder", type=Path, required=True, help="folder of all runs")
    parser.add_argument(
        "--seconds", type=float, help="of training, of each run; 3,240, or 2 with --quick"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument(
        "--only", nargs="+", choices=tuple(RECIPES), default=tuple(RECIPES), help="these recipes"
    )
    parser.add_argument("--quick", action="store_true", help="tiny models on the demo corpus")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    options, console = parser.parse_args(), Console()
    if not options.corpus and not options.quick:
        parser.error("--corpus FILES, or --quick")
    seconds = options.seconds or (2.0 if options.quick else 3_240.0)
    folder = options.folder.resolve()  # the programs run in another folder
    folder = folder / "quick" if options.quick else folder
    folder.mkdir(parents=True, exist_ok=True)
    more = _QUICK if options.quick else {}
    corpus = _prepared(options.corpus, folder, quick=options.quick)
    results: dict[str, list[Result]] = {words: [] for words in options.only}
    for seed in options.seeds:  # in turn, so that a slower hour of the machine meets all recipes
        for words, runs in results.items():
            console.print(f"{words}, seed {seed}")
            runs.append(result_of(words, seed, corpus, folder, seconds, more))
    show(results, console)
    report.write(
        options.out,
        report.command("pretraining_recipes", sys.argv[1:]),
        PACKAGES,
        seconds=seconds,
        results=results,
    )


def _prepared(text: str, folder: Path, *, quick: bool) -> Path:
    """Return the folder of the prepared corpus, prepared now if it is missing."""
    corpus = folder / "corpus"
    if corpus.is_dir():
        return corpus
    values: dict[str, Any] = {"corpus": str(Path(text).resolve()) if text else "", **TEXT}
    if quick:
        from bert_keras.data import write_demo_corpus

        values = {"corpus": write_demo_corpus(folder / "demo.txt"), **_QUICK_TEXT}
    run_program("training.prepare", {**values, "out": corpus})
    return corpus


if __name__ == "__main__":
    main()
