"""Pretrains a BERT from text: corpus, vocabulary, training, report and SavedModel in one command.

    python -m training.pretrain RECIPE [key=value …] [--dry-run] [--quicktest]

RECIPE is a name in training/recipes or the path of a recipe file; key=value changes its values.
The same command goes on with a run that was interrupted, exactly where its last checkpoint is.

    --dry-run     prints what would be done: counts, memory, time
    --quicktest   the whole way in seconds, with a tiny model on little text, in a temporary
                  folder unless out= names one

Examples:
    python -m training.pretrain demo
    python -m training.pretrain wiki_mini corpus="wiki/*.txt" steps=20_000 out=runs/my_wiki
    python -m training.pretrain wiki_mini corpus="field/*.txt" start=my_bert objective=mlm
    KERAS_BACKEND=jax python -m training.pretrain wiki_mini precision=mixed_bfloat16

Everything is written to runs/<name>/ (see report.md there) and saved_models/<name>/<version>/.
Exit codes: 0 done, 2 bad arguments, 3 bad text, 4 damaged files, 5 no space or folder in use,
6 numbers that are not finite, 130 and 143 stopped by a signal after saving.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import shlex
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from bert_keras.errors import UsageError
from training import machine
from training.recipe import PretrainRecipe, load_recipe, quicktest
from training.recipe_files import read_command
from training.run import run

if TYPE_CHECKING:
    from bert_keras.models import Task
    from training.corpora import TrainingCorpora
    from training.run_folder import RunFolder

_FLAGS = ("--dry-run", "--quicktest")
_EVENTS = ("tensorflow", "tensorboard")  # what writes event files, on every backend


def main(arguments: list[str]) -> int:
    """Runs the program; returns the exit code."""
    recipe, flags = read_command(
        arguments,
        _FLAGS,
        load_recipe,
        quicktest,
        "training.pretrain",
        named="the folders of run and SavedModel",
    )
    if "--dry-run" in flags:
        from training.plan import print_plan

        print_plan(recipe)
        return 0
    missing = [name for name in _EVENTS if importlib.util.find_spec(name) is None]
    if recipe.tensorboard and missing:
        raise UsageError(
            f"tensorboard=true needs {' and '.join(missing)}. Install with pip, or leave it out: "
            "metrics.jsonl has the same numbers."
        )
    machine.order_for_memory()
    # Keras and its backend take seconds to import: after the command is known to be good.
    from bert_keras.resume import RunLock
    from training.run_folder import RunFolder

    if "--quicktest" in flags and not recipe.out:  # every test is a new run
        recipe = dataclasses.replace(recipe, out=tempfile.mkdtemp(prefix="bert_keras_quicktest_"))
    folder = RunFolder(recipe)
    folder.check()  # before the lock puts a file into it
    with RunLock(folder.path):
        return _pretrain(recipe, folder, arguments)


def _pretrain(recipe: PretrainRecipe, folder: RunFolder, arguments: list[str]) -> int:
    import keras

    from bert_keras.data import dataset
    from training.corpora import evaluation_batches, open_corpora, rows_of, seen_in
    from training.fitting import Fitting
    from training.health import versions
    from training.model import build, learner, start_from_frequencies

    start = perf_counter()
    folder.claim(recipe, keras.backend.backend(), versions())

    # === Text ===
    corpora = open_corpora(recipe, folder)
    examples = rows_of(recipe, corpora.examples(recipe))
    held_out = rows_of(recipe, corpora.examples(recipe, held_out=True))

    # === Model ===
    keras.utils.set_random_seed(recipe.seed)
    task = build(recipe, corpora.tokenizer.vocab_size)
    model = learner(recipe, task)

    # === Resume ===
    fitting = Fitting(
        model,
        examples,
        checkpoints=folder.checkpoints,
        metrics=folder.metrics,
        speed=folder.speed,
        report_every=recipe.report_every,
        began=start,
        start={"peak_memory": 0},
    )
    state, fingerprint = fitting.state, corpora.fingerprint
    if not state["step"] and recipe.output_bias == "frequency":
        start_from_frequencies(task, corpora.log_shares())
    if state.get("corpus", fingerprint) != fingerprint:
        raise UsageError(
            f"{corpora.folder}: not the corpus that the run in {folder.path} began with. "
            "Put that one back, or give out=FOLDER for a new run."
        )

    def peak_memory() -> int:
        return max(state["peak_memory"], machine.peak_memory_bytes() or 0)

    # === Training ===
    step, steps = state["step"], recipe.steps
    stop = fitting.run(
        steps // recipe.report_every,
        seen=seen_in(examples),
        more=lambda: {"peak_memory": peak_memory(), "corpus": fingerprint},
        callbacks=[_event_files(folder)] if recipe.tensorboard else [],
        checkpoint_every=recipe.checkpoint_every,
        workers=recipe.workers,
        note=f"Going on after step {step:,} of {steps:,}." if step else "",
        validation_data=dataset(
            held_out, steps=evaluation_batches(recipe, held_out), workers=recipe.workers
        ),
        validation_freq=recipe.evaluate_every,
    )
    if stop.signal is not None:
        print(
            f"Stopped by {stop.signal.name} after a checkpoint; the same command goes on.",
            file=sys.stderr,
        )
        return stop.exit_code
    if step == steps:
        # As `fit` ends: averaged weights, where wanted, take the place of the trained ones.
        model.optimizer.finalize_variable_values(model.trainable_variables)
    command = shlex.join(["python", "-m", "training.pretrain", *arguments])
    _finish(
        recipe,
        folder,
        task,
        corpora,
        command=command,
        seconds=fitting.seconds,
        peak_memory=peak_memory(),
        # Of a test nothing is left outside its folder.
        saved_models=Path(folder.path if "--quicktest" in arguments else "", "saved_models"),
    )
    return 0


def _event_files(folder: RunFolder) -> Any:
    import keras

    # A graph would say what model.summary() says.
    return keras.callbacks.TensorBoard(str(folder.path / "tensorboard"), write_graph=False)


def _finish(
    recipe: PretrainRecipe,
    folder: RunFolder,
    task: Task,
    corpora: TrainingCorpora,
    *,
    command: str,
    seconds: float,
    peak_memory: int,
    saved_models: Path,
) -> None:
    """Saves the model, measures it, writes the report, exports, and asks the exported model."""
    from training.export import export_and_ask
    from training.health import examine
    from training.report import print_summary, write_report

    task.save_to_preset(folder.path)
    corpora.tokenizer.save_to_preset(folder.path)
    report = examine(
        recipe,
        folder,
        task,
        corpora,
        command=command,
        seconds=seconds,
        peak_memory=peak_memory or None,
    )
    write_report(folder.report, report)
    print_summary(report)
    print(f"\nModel, report and picture: {folder.path}/")
    if recipe.export:
        export_and_ask(
            *(task, corpora.tokenizer, recipe, report.filled, folder.weights, folder.exported),
            folder=saved_models,
        )


if __name__ == "__main__":
    run(main)
