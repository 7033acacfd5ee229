"""Corpus and model of a pretraining run."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection
from pathlib import Path
from typing import Any

import keras
import numpy as np

from bert_keras.checkpoints import new_head_options
from bert_keras.data import (
    SPLIT_FOLDERS,
    Corpus,
    PackedExamples,
    PretrainingExamples,
    demo_documents,
    read,
    split_of,
    write_demo_corpus,
)
from bert_keras.errors import ArtifactError, DataError, UsageError
from bert_keras.features import NSP
from bert_keras.models import (
    BertEncoder,
    ChunkedTask,
    ElectraPretrainer,
    MaskedLM,
    PackedTask,
    Pretrainer,
    Task,
)
from bert_keras.tokenizers import Tokenizer
from bert_keras.training import prepare
from bert_keras.training.pretrain_recipe import PretrainRecipe
from bert_keras.training.run_folder import PretrainFolder
from bert_keras.training.setup import compile_for

_CHUNK = 1 << 22  # ids that are counted at once: a corpus is larger than memory


def entropy(token_ids: np.ndarray, special_ids: Collection[int]) -> float:
    """Return the entropy in nats of the tokens' frequencies, without special tokens.

    A model that ignores the context cannot have a lower loss on these tokens.

    Raises:
        ValueError: there is no token but special ones.
    """
    counts = _counts(token_ids, special_ids, int(token_ids.max(initial=0)) + 1)
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def cross_entropy(
    train_ids: np.ndarray, validation_ids: np.ndarray, special_ids: Collection[int], vocab_size: int
) -> float:
    """Return the loss in nats of the training frequencies, add-one smoothed, on validation tokens.

    Raises:
        ValueError: there is no token but special ones.
    """
    counts = _counts(validation_ids, special_ids, vocab_size)
    seen = counts > 0
    losses = -log_shares(train_ids, special_ids, vocab_size)[seen]
    return float((counts[seen] * losses).sum() / counts.sum())


def log_shares(token_ids: np.ndarray, special_ids: Collection[int], vocab_size: int) -> np.ndarray:
    """Return the logarithms of the tokens' frequencies, add-one smoothed: float64 [vocab_size].

    Special tokens are never predicted and have -inf.

    Raises:
        ValueError: there is no token but special ones.
    """
    weights = _counts(token_ids, special_ids, vocab_size) + 1.0
    weights[list(special_ids)] = 0
    with np.errstate(divide="ignore"):
        return np.log(weights) - np.log(weights.sum())


def _counts(token_ids: np.ndarray, special_ids: Collection[int], size: int) -> np.ndarray:
    """Return how often each id below `size` occurs: int64 [size]; 0 for special tokens."""
    counts = np.zeros(size, np.int64)
    for start in range(0, len(token_ids), _CHUNK):
        counts += np.bincount(token_ids[start : start + _CHUNK], minlength=size)
    counts[[token for token in special_ids if token < size]] = 0
    if not counts.any():
        raise ValueError(f"All tokens are special tokens. Received: {len(token_ids)} token ids")
    return counts


# === Corpus ===


SAMPLED_BATCHES = 50  # that statistics are taken from


@dataclasses.dataclass(frozen=True)
class TrainingCorpora:
    """Tokenizer, training documents and validation documents of a run."""

    tokenizer: Tokenizer
    train: Corpus
    validation: Corpus
    folder: Path
    is_prepared: bool  # by `bert-keras prepare`, not by the run

    @property
    def fingerprint(self) -> str:
        """Digest of both corpora and the tokenizer."""
        return f"{self.train.fingerprint}-{self.validation.fingerprint}"

    def log_shares(self) -> np.ndarray:
        """Return the logarithms of the training tokens' frequencies: float64 [vocab_size]."""
        special, size = self.tokenizer.special_ids, self.tokenizer.vocab_size
        return log_shares(self.train.tokens, special, size)

    def examples(self, recipe: PretrainRecipe, *, validation: bool = False) -> PretrainingExamples:
        """Return the training or the validation examples of the recipe.

        If there are fewer validation examples than a batch holds, the batch is smaller.

        Raises:
            DataError: the documents give no examples, or too few to train on.
        """
        corpus = self.validation if validation else self.train

        def of_size(batch_size: int) -> PretrainingExamples:
            """Return the examples in batches of this size."""
            return PretrainingExamples(
                corpus,
                self.tokenizer,
                sequence_length=recipe.sequence_length,
                batch_size=batch_size,
                loss=recipe.loss,
                masking=recipe.masking,
                mask_rate=recipe.mask_rate,
                max_predictions_per_seq=recipe.max_predictions_per_seq or None,
                short_seq_prob=recipe.short_seq_prob,
                seed=recipe.seed,
            )

        try:
            examples = of_size(recipe.batch_size)
            count = len(examples.plan(0))
            if validation and 0 < count < recipe.batch_size:
                examples = of_size(count)
            if not recipe.packed_length:  # rows of several examples fill up their last batch
                examples.num_batches(0)
        except DataError as error:
            part = "documents of validation_split=" if validation else "documents to train on"
            raise DataError(f"{corpus.num_documents:,} {part}: {error}") from error
        return examples


def apply_packing(
    recipe: PretrainRecipe, examples: PretrainingExamples
) -> PretrainingExamples | PackedExamples:
    """Pack the examples into rows of `packed_length` tokens; if it is 0, return them unchanged."""
    if not (length := recipe.packed_length):
        return examples
    # A batch has about `batch_size` examples, as without packing.
    rows = round(recipe.batch_size * float(examples.lengths_of(0).mean()) / length)
    return PackedExamples(examples, sequence_length=length, batch_size=max(1, rows))


def batch_statistics(examples: PretrainingExamples | PackedExamples) -> dict[str, float]:
    """Return statistics of the training examples: of the first batches if they are not packed."""
    if isinstance(examples, PackedExamples):
        return examples.statistics(0)
    return examples.statistics(0, SAMPLED_BATCHES)


def open_corpora(recipe: PretrainRecipe, folder: PretrainFolder) -> TrainingCorpora:
    """Open the prepared corpus that the recipe names, or the run's own, prepared now if missing.

    Raises:
        DataError: the text cannot be used.
        ArtifactError: a prepared corpus is damaged.
    """
    if Path(recipe.init_checkpoint).is_file():
        raise UsageError(f"init_checkpoint={recipe.init_checkpoint} is a file. Name its folder.")
    if prepared := prepare.find_prepared(recipe.corpus):
        return _open_prepared(prepared, is_prepared=True)
    if not folder.corpus.exists():
        _prepare(recipe, folder)
    elif not folder.training.checkpoints.exists():
        if _changes(recipe, folder):
            _prepare(recipe, folder)
    elif (changes := _changes(recipe, folder)) is None or changes:
        # After the first checkpoint the run keeps its corpus.
        prepare.note_changes(recipe.corpus, folder.corpus, changes)
    return _open_prepared(folder.corpus, is_prepared=False)


def check_validation_split(recipe: PretrainRecipe) -> None:
    """Check, without preparing the text, that a model can be evaluated on its validation split.

    Raises:
        UsageError: a corpus that was prepared without a validation split.
        DataError: too few validation documents.
    """
    if prepared := prepare.find_prepared(recipe.corpus):
        corpora = _open_prepared(prepared, is_prepared=True, verify=False)
        corpora.examples(recipe, validation=True)
        return
    needed = 2 if recipe.loss == NSP else 1
    if recipe.corpus == "demo":
        documents = demo_documents()
    else:  # each line as a sentence: the documents are the same, and nothing is split
        documents = read(recipe.corpus, layout="sentences", field=recipe.field)
    count = num_validation = 0
    for count, _ in enumerate(documents, 1):
        num_validation += split_of(count - 1, recipe.validation_split) == "validation"
        if num_validation == needed:
            return
    raise DataError(
        f"corpus={recipe.corpus}: too few documents for evaluation. Received: {count:,} documents, "
        f"of which validation_split={recipe.validation_split:g} keeps {num_validation}; "
        f'loss="{recipe.loss}" needs {needed} validation documents. Put blank lines between '
        "documents, add text, or give a larger validation_split=, up to 0.5."
    )


def _open_prepared(folder: Path, is_prepared: bool, *, verify: bool = True) -> TrainingCorpora:
    """Open tokenizer, training and validation documents of a prepared corpus."""
    if not (folder / SPLIT_FOLDERS["validation"]).is_dir():
        raise UsageError(
            f"{folder}: prepared with validation_split=0, so there is nothing to evaluate on. "
            "Prepare it again with a larger share, such as validation_split=0.02."
        )
    tokenizer = Tokenizer.from_preset(folder)
    train, validation = (_open(folder / name, tokenizer, verify) for name in SPLIT_FOLDERS.values())
    return TrainingCorpora(tokenizer, train, validation, folder, is_prepared)


def _open(folder: Path, tokenizer: Tokenizer, verify: bool) -> Corpus:
    """Open one part of a prepared corpus, whose ids must be in the vocabulary."""
    corpus = Corpus.open(folder, verify=verify)
    if (largest := int(corpus.tokens.max(initial=0))) >= tokenizer.vocab_size:
        raise ArtifactError(
            f"{folder}: holds the token id {largest}, but the vocabulary beside it has "
            f"{tokenizer.vocab_size} entries. Prepare the corpus again."
        )
    return corpus


def _changes(recipe: PretrainRecipe, folder: PretrainFolder) -> list[str] | None:
    """Return a line for each file of the text that has changed; None if the text is gone."""
    if recipe.corpus == "demo":
        return []
    try:
        return prepare.changes(recipe.corpus, folder.corpus)
    except (DataError, OSError):
        return None  # the prepared corpus is there


def _prepare(recipe: PretrainRecipe, folder: PretrainFolder) -> None:
    """Prepare the recipe's text into the folder of the run."""
    check_validation_split(recipe)  # before the vocabulary is learned
    source, file_names = recipe.corpus, ()
    if source == "demo":
        source = str(write_demo_corpus(folder.path / "demo.txt"))
        file_names = ("demo.txt",)  # the folder is no part of the text
    names = ("layout", "language", "field", "vocab", "vocab_size", "lowercase", "workers")
    values: dict[str, Any] = {name: getattr(recipe, name) for name in names}
    prepare.prepare(
        corpus=source,
        out=folder.corpus,
        model=recipe.tokenizer_model,
        validation_split=recipe.validation_split,
        overwrite=True,
        file_names=file_names,
        **values,
    )


def evaluation_batches(
    recipe: PretrainRecipe, examples: PretrainingExamples | PackedExamples
) -> int:
    """Return the number of measured batches of validation examples."""
    return min(math.ceil(recipe.eval_examples / recipe.batch_size), examples.num_batches(0))


# === Model ===


# Heads that a checkpoint may have and the new task may lack.
_HEADS = ("mlm", "nsp", "sop", "rtd", "label", "tags", "span", "choice", "pooler")


def build_task(recipe: PretrainRecipe, vocab_size: int, *, load_weights: bool = True) -> Task:
    """Build the recipe's model, new or from its checkpoint.

    Args:
        recipe: recipe of the run.
        vocab_size: size of the vocabulary of the tokenizer.
        load_weights: False to read the config of a checkpoint alone.

    Raises:
        UsageError: the checkpoint does not fit the recipe or the tokenizer.
        ArtifactError: no such checkpoint, or a damaged one.
    """
    if recipe.init_checkpoint:
        task = _task_of_checkpoint(recipe, vocab_size, load_weights=load_weights)
    else:
        task = _new_task(recipe, vocab_size)
    task.encoder.checkpoint_gradients(recipe.gradient_checkpointing)
    return task


def task_to_train(recipe: PretrainRecipe, task: Task) -> Task | PackedTask | ChunkedTask:
    """Compile the task, or its view with packed rows or the loss in chunks of the vocabulary."""
    model: Any = task.packed() if recipe.packed_length else task
    if recipe.loss_chunks > 1:
        model = model.loss_chunks(recipe.loss_chunks)
    batches = recipe.gradient_accumulation_steps  # of an update, in which the optimizer counts
    compile_for(
        recipe,
        model,
        recipe.steps // batches,
        warmup_steps=recipe.warmup_steps // batches,
        gradient_accumulation_steps=batches,
        ema_momentum=recipe.ema_momentum,
    )
    return model


def _task_of_checkpoint(recipe: PretrainRecipe, vocab_size: int, *, load_weights: bool) -> Task:
    """Open `init_checkpoint=` as a task of the recipe's loss; heads that it lacks are new."""
    task_class = MaskedLM if recipe.loss == "mlm" else Pretrainer  # the recipe refuses "rtd"
    options: dict[str, Any] = {} if task_class is MaskedLM else {"loss": recipe.loss}
    try:
        task = task_class.from_preset(
            recipe.init_checkpoint,
            plain=True,  # merges adapters and freezes nothing: all weights are trained
            dtype=recipe.precision,
            load_weights=load_weights,
            allow_missing=(*task_class.head_layers, "pooler"),
            allow_unused=_HEADS,
            **options,
        )
        task.encoder.config.check_rows(vocab_size)
    except ArtifactError:
        raise
    except ValueError as error:
        raise UsageError(f"init_checkpoint={recipe.init_checkpoint}: {error}") from error
    positions = task.encoder.config.max_positions
    least = vocab_size if task.tokenizer is None else task.tokenizer.vocab_size
    if vocab_size < least or recipe.sequence_length > positions:
        raise UsageError(
            f"init_checkpoint={recipe.init_checkpoint} has a vocabulary of {least} and "
            f"{positions} positions. Received: a vocabulary of {vocab_size}, "
            f"sequence_length={recipe.sequence_length}. Give vocab= of the checkpoint, or a "
            "smaller sequence_length="
        )
    return task


def _new_task(recipe: PretrainRecipe, vocab_size: int) -> Task:
    """Build the task of the recipe's loss with new weights."""
    encoder = BertEncoder(recipe.new_config(vocab_size), dtype=recipe.precision)
    if recipe.loss == "mlm":
        return MaskedLM(encoder, **new_head_options("MaskedLM", encoder.config))
    if recipe.loss == "rtd":
        return ElectraPretrainer(encoder, generator_size=recipe.generator_size)
    return Pretrainer(encoder, loss=recipe.loss)


def start_from_frequencies(task: Task, log_shares: np.ndarray) -> None:
    """Set the output bias of a new MLM head to the log frequencies of the tokens.

    This is the best prediction without context. A bias of zeros takes hundreds of steps to learn
    it, which push all rows of the token table in one direction. A trained bias is not changed, and
    a head without one neither.

    Args:
        task: a new model with an MLM head.
        log_shares: see `log_shares`; -inf and padded rows get the lowest finite value.
    """
    if task.mlm.bias is None or np.any(keras.ops.convert_to_numpy(task.mlm.bias)):
        return
    bias = np.full(task.mlm.bias.shape[0], log_shares[np.isfinite(log_shares)].min())
    bias[: len(log_shares)] = np.maximum(log_shares, bias[0])
    task.mlm.bias.assign((bias - bias.mean()).astype(np.float32))  # a softmax ignores the mean
