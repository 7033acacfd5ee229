"""Pretrain a BERT from text: corpus, vocabulary, training, report and SavedModel in one command.

    bert-keras pretrain RECIPE [key=value …] [--dry-run] [--quicktest]
    bert-keras pretrain --help KEY      explains one key
    bert-keras pretrain RECIPE --help   lists the values of a recipe

RECIPE is a name that `bert-keras recipes` lists, or the path of a recipe file; key=value changes
its values.
The same command goes on with a run that was interrupted, exactly where its last checkpoint is.

    --dry-run     prints what would be done: counts, memory, time
    --quicktest   the whole way in seconds, with a tiny model on little text, in a temporary
                  folder unless out= names one

Examples:
    bert-keras pretrain demo
    bert-keras pretrain wiki_mini corpus="wiki/*.txt" steps=20_000 out=runs/my_wiki
    bert-keras pretrain wiki_mini corpus="field/*.txt" init_checkpoint=my_bert loss=mlm
    KERAS_BACKEND=jax bert-keras pretrain wiki_mini precision=mixed_bfloat16

Everything is written to runs/<name>/ (see report.md there) and saved_models/<name>/<version>/.
Exit codes: 0 done, 2 bad arguments, 3 bad text, 4 damaged files, 5 no space or folder in use,
6 numbers that are not finite, 130 and 143 stopped by a signal after saving.
"""

from __future__ import annotations

import importlib.util
import shlex
import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from bert_keras.errors import DataError, UsageError, run_steps
from bert_keras.training import machine, recipe_help
from bert_keras.training.pretrain_recipe import FOLDER, PretrainRecipe, load_recipe, quicktest
from bert_keras.training.recipe_files import read_command
from bert_keras.training.run import AGAIN, check_folder, run, train

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bert_keras.training.pretrain_setup import TrainingCorpora
    from bert_keras.training.run_folder import PretrainFolder

_FLAGS = ("--dry-run", "--quicktest")


def describe(words: list[str]) -> str:
    """Return the help; of one key or recipe where the words name one."""
    return recipe_help.describe(words, PretrainRecipe, FOLDER, __doc__ or "")


def main(arguments: list[str]) -> int:
    """Run the program; return the exit code."""
    recipe, flags = read_command(
        arguments,
        PretrainRecipe,
        _FLAGS,
        load_recipe,
        quicktest,
        "pretrain",
        named="the folders of run and SavedModel",
    )
    if recipe.tensorboard and importlib.util.find_spec("tensorboard") is None:
        raise UsageError(
            "tensorboard=true needs tensorboard. Install bert-keras[tensorboard], or leave it "
            "out: metrics.jsonl has the same numbers."
        )
    if recipe.export and importlib.util.find_spec("tensorflow_text") is None:
        note = (
            "note: tensorflow-text is not installed, so the SavedModel cannot be written after the "
            'training. Install "bert-keras[tensorflow]" before the end, or give export=false.'
        )
        print(note, file=sys.stderr)
    is_quicktest = "--quicktest" in flags
    if "--dry-run" in flags:
        from bert_keras.training.dry_run import print_plan

        if recipe.out or not is_quicktest:  # else the folder is a new one
            check_folder(recipe)
        print_plan(recipe, is_quicktest=is_quicktest)
        return 0

    def body(folder: PretrainFolder) -> None:
        """Train in the folder of the run."""
        _pretrain(recipe, folder, arguments)

    return train(recipe, body, is_quicktest=is_quicktest)


def _pretrain(recipe: PretrainRecipe, folder: PretrainFolder, arguments: list[str]) -> None:
    """Prepare the text, train from the last checkpoint on, and write model and report."""
    import keras

    from bert_keras.data import dataset
    from bert_keras.training.last_steps import STEPS, Trained
    from bert_keras.training.pretrain_setup import (
        apply_packing,
        batch_statistics,
        build_task,
        evaluation_batches,
        open_corpora,
        start_from_frequencies,
        task_to_train,
    )
    from bert_keras.training.setup import set_seed_and_devices
    from bert_keras.training.training_loop import Fitting

    start = perf_counter()
    folder.claim(recipe, keras.backend.backend(), machine.versions())

    # === Text ===
    corpora = open_corpora(recipe, folder)
    for note in filter(None, _notes(recipe, corpora)):
        print(f"note: {note}", file=sys.stderr)
    examples = apply_packing(recipe, corpora.examples(recipe))
    validation = apply_packing(recipe, corpora.examples(recipe, validation=True))

    # === Model ===
    set_seed_and_devices(recipe.seed)
    task = build_task(recipe, corpora.tokenizer.vocab_size)
    model = task_to_train(recipe, task)

    # === Resume ===
    fitting = Fitting(
        model,
        examples,
        files=folder.training,
        log_every=recipe.log_every,
        began=start,
        start={"peak_memory": 0},
    )
    state, fingerprint = fitting.state, corpora.fingerprint
    if not state["step"] and recipe.output_bias == "frequency":
        start_from_frequencies(task, corpora.log_shares())
    if state.get("corpus", fingerprint) != fingerprint:
        raise UsageError(
            f"{corpora.folder}: the corpus has changed since the run in {folder.path} began. "
            "Put the earlier corpus back, or give out=FOLDER for a new run."
        )

    def peak_memory() -> int:
        """Return the peak memory in bytes of this process and of those before a resume."""
        return max(state["peak_memory"], machine.peak_memory_bytes() or 0)

    # === Training ===
    step, steps = state["step"], recipe.steps
    event_files = _event_files(folder) if recipe.tensorboard else None
    fitting.run(
        steps // recipe.log_every,
        statistics=batch_statistics(examples),
        extra_state=lambda: {"peak_memory": peak_memory(), "corpus": fingerprint},
        callbacks=[event_files] if event_files else [],
        checkpoint_every=recipe.checkpoint_every,
        workers=recipe.workers,
        note=f"Going on after step {step:,} of {steps:,}." if step else "",
        validation_data=dataset(
            validation, steps=evaluation_batches(recipe, validation), workers=recipe.workers
        ),
        validation_freq=recipe.evaluate_every,
    )
    if step == steps:
        # No `fit` ran, which ends with this: averaged weights replace the trained ones.
        model.optimizer.finalize_variable_values(model.trainable_variables)
    command = shlex.join(["bert-keras", "pretrain", *arguments])
    trained = Trained(
        *(recipe, folder, task, corpora, event_files),
        command=command,
        seconds=fitting.seconds,
        peak_memory=peak_memory(),
        # Of a test nothing is left outside its folder.
        saved_models=Path(folder.given if "--quicktest" in arguments else "", "saved_models"),
    )
    run_steps(STEPS, trained, done=f"{folder.path}: the training is done", again=AGAIN)


def _notes(recipe: PretrainRecipe, corpora: TrainingCorpora) -> Iterator[str]:
    """Yield what to know before the training: text that is [UNK], a SavedModel without text.

    Raises:
        DataError: all text to train on, or to evaluate on, is [UNK].
    """
    from bert_keras.training.prepare import vocabulary_cure

    key = "prepare it again with model" if corpora.is_prepared else "give tokenizer_model"
    cure = f"{key}=unigram, bpe or char"
    is_learned = not corpora.is_prepared and not recipe.vocab
    of_unknown = vocabulary_cure("tokenizer_model", is_learned=is_learned)
    for corpus in (corpora.train, corpora.validation):
        coverage = corpus.coverage
        if coverage.unknown_tokens == coverage.tokens:
            raise DataError(
                f"{corpus.directory}: a model cannot learn from [UNK] alone. "
                f"{coverage.message(cure, of_unknown)}"
            )
    coverage = corpora.train.coverage + corpora.validation.coverage
    yield coverage.message(cure, of_unknown)
    if recipe.export and not corpora.tokenizer.has_graph:
        yield (
            "the SavedModel will take ids and no text, because this tokenizer has no exact "
            "TensorFlow graph. Make the ids with bert_keras.Tokenizer or transformers."
        )


def _event_files(folder: PretrainFolder) -> Any:
    """Return the callback that writes TensorBoard's files, and whose failure ends no run."""
    from bert_keras.training.last_steps import EventFiles
    from bert_keras.training.training_loop import MayFail

    return MayFail(EventFiles(folder.path / "tensorboard"))


if __name__ == "__main__":
    run(main, describe=describe)
