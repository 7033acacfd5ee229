"""Measure a fine-tuned model on a file of labelled examples.

    bert-keras evaluate RUN_OR_MODEL data=FILE [out=FOLDER] [key=value …]

RUN_OR_MODEL is the folder of a fine-tuning run, whose values are used again, or any checkpoint of a
task (a folder, or hf://organisation/name). key=value changes how FILE is read and measured: text=,
pair=, label=, format=, max_length=, no_answer= and the like; an unknown key lists them all.
precision= is the Keras dtype policy of the model, device= the device that computes (cpu, gpu:1).
variant=, averages=, allow_pickle= and trust= say which weights are read, as in predict.
When a question has no answer is decided by the threshold that was best on the run's validation
examples.

Examples:
    bert-keras evaluate runs/sst2 data=sst2/dev.tsv
    bert-keras evaluate hf://organisation/name data=mnli.jsonl text=premise pair=hypothesis
                                out=mnli

Prints a table, and writes metrics.json and the predictions into out=, or, of a run, into its
folder evaluation/<name of FILE>.
Exit codes: 0 done, 2 bad arguments, 3 bad examples, 4 a damaged model, 5 no space.
"""

from __future__ import annotations

from pathlib import Path

from bert_keras import escaping, file_io
from bert_keras.errors import Step, UsageError, run_steps
from bert_keras.training.run import run

_MODELS = ("run.json", "config.json")  # a folder with one of these is a run or a model


def main(arguments: list[str]) -> int:
    """Run the program; return the exit code."""
    # Keras and its backend take seconds to import: not for --help.
    from rich.table import Table

    from bert_keras.training.finetune_data import read
    from bert_keras.training.finetuned_model import open_finetuned

    opened = open_finetuned(arguments, "evaluate", ("data",))
    data_file, finetuning = opened.program_values["data"], opened.finetuning
    out = _folder(arguments[0], data_file, opened.program_values["out"])
    _require_own(out, data_file)
    data = read(finetuning, data_file)
    finetuning.check(data, opened.labels)
    with opened.shown():
        evaluation = finetuning.evaluate(opened.predictor, data)
    card = {"model": arguments[0], "data": data_file, "examples": len(data)}
    metrics = {**card, "metrics": evaluation.stored}
    predictions = out / f"predictions.{finetuning.extension}"
    table = Table("metric", "value", title=f"{data_file}: {len(data):,} examples")
    for name, value in evaluation.metrics.items():
        table.add_row(name, f"{value:.4f}")
    steps = (
        Step("table", lambda _: escaping.console().print(table)),
        Step("folder", lambda _: out.mkdir(parents=True, exist_ok=True)),
        Step(
            "metrics",
            lambda _: file_io.write_json(out / "metrics.json", metrics),
            needs=("folder",),
        ),
        Step(
            "predictions",
            lambda _: finetuning.write(predictions, data, evaluation.predictions),
            needs=("folder",),
        ),
    )
    run_steps(steps, None, done=f"{out}: all is measured", again="Repeat the command.")
    print(f"\nMetrics and predictions: {out}/")
    return 0


def _folder(model: str, data: str, out: str) -> Path:
    """Return the folder of the results."""
    run_folder = file_io.expanded(model)
    if not out and not (run_folder / "run.json").is_file():
        raise UsageError(
            f"{model} is not the folder of a run, so the results have no folder. Name one with "
            "out=FOLDER."
        )
    path = file_io.expanded(out) if out else run_folder / "evaluation" / Path(data).name
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is a file. Choose a folder with out=FOLDER.")
    if path.resolve() == run_folder.resolve() or any((path / name).exists() for name in _MODELS):
        raise UsageError(f"{path} is the folder of a model. Choose another folder with out=FOLDER.")
    return path


def _require_own(out: Path, data: str) -> None:
    """Refuse a folder that holds the results of another file, even of one with the same name."""
    stored = out / "metrics.json"
    if not stored.is_file():
        return
    of = file_io.read_object(stored).get("data")
    if not isinstance(of, str) or _absolute(of) != _absolute(data):
        raise UsageError(
            f"{out} holds the results of {of}, not of {data}. Choose another folder with "
            "out=FOLDER."
        )


def _absolute(path: str) -> Path:
    """Return a path without "~" and links, so that two names of a file compare equal."""
    return file_io.expanded(path).resolve()


if __name__ == "__main__":
    run(main)
