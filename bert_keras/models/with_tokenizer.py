"""Tokenizer and answer settings that a task holds, and that are saved and copied with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from bert_keras.config import BertConfig
from bert_keras.inference import RankingMethods, Runner
from bert_keras.inference.base import FILE, PredictorConfig
from bert_keras.models.text_columns import TEXT_PAIR
from bert_keras.tokenizers import Tokenizer

_BATCH_SIZE = 32  # for answers of a task; `Predictor` has an option for it


class AnswersTexts:
    """Mixin of encoders and tasks: attributes that describe which texts a class reads and answers.

    Other parts of the package, such as the signatures of a SavedModel, look their code up by these
    values, and so need no list of classes. The names of the outputs are the keys of Keras's own
    property `output`.

    Attributes:
        task_name: a name of `task_names`, or "feature_extraction" for an encoder. Where a class
            has variants, as `SequenceClassifier` has, the object has the name of its variant.
        text_inputs: names of the columns of text that `fit` reads, in order.
        takes_pairs: True for a class that answers one text or a pair of texts.
        reads_apart: True where the two texts of a pair are separate rows of the model.
        answers_with: name of the method that answers; None for the vectors of `encode`.
        answers_texts: False for a class whose outputs are no answers about texts.
        fills_masks: True for a task whose head `mlm` computes the logits of masked tokens.
        takes_windows: True for a class whose `fit` and `predict` can read long texts in windows,
            with `long_texts="windows"`. `encode` can do so with every model.
    """

    task_name: str
    text_inputs: ClassVar[tuple[str, ...]] = ("text",)
    takes_pairs: ClassVar[bool] = False
    reads_apart: ClassVar[bool] = False
    answers_with: ClassVar[str | None] = None
    answers_texts: ClassVar[bool] = True
    fills_masks: ClassVar[bool] = False
    takes_windows: ClassVar[bool] = False

    @classmethod
    def answer_inputs(cls, is_paired: bool = False) -> tuple[str, ...]:
        """Return the names of the texts that one answer is about, such as ("question", "context").

        Args:
            is_paired: True for a pair of texts, for a class that takes both.
        """
        if cls.takes_pairs:
            return TEXT_PAIR if is_paired else TEXT_PAIR[:1]
        return cls.text_inputs

    def answer_method(self, is_paired: bool = False) -> str:
        """Return the name of the method of `Predictor` that answers.

        Args:
            is_paired: True for pairs of texts.
        """
        return self.answers_with or ("similarity" if is_paired else "encode")


class WithTokenizer(AnswersTexts, RankingMethods):
    """Mixin of tasks that take text: each may hold the tokenizer of its encoder.

    The tokenizer is state of the task. `save_to_preset` and `.keras` files contain it, and a clone,
    a copy and a pickled task have it too. `from_preset` attaches the tokenizer of the folder.
    """

    encoder: Any

    _tokenizer: Tokenizer | None = None
    _predictor_config = PredictorConfig()
    _without_tokenizer = ""  # a sentence on why `from_preset` attached none, for the message

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer of the task; None for a task that takes features alone."""
        return self._tokenizer

    @tokenizer.setter
    def tokenizer(self, tokenizer: Tokenizer | None) -> None:
        if tokenizer is not None:
            if not isinstance(tokenizer, Tokenizer):
                raise TypeError(
                    "`tokenizer` must be a bert_keras.Tokenizer or None: "
                    "bert_keras.Tokenizer.from_preset(folder) opens one. "
                    f"Received: {type(tokenizer).__name__}"
                )
            self.encoder.config.check_rows(tokenizer.vocab_size)
        self._tokenizer = tokenizer
        self.attach_to_parts()

    @property
    def predictor_config(self) -> PredictorConfig:
        """Settings of predictions: maximum length in tokens, options, whether texts are pairs."""
        return self._predictor_config

    @predictor_config.setter
    def predictor_config(self, config: PredictorConfig) -> None:
        self._predictor_config = config
        self.attach_to_parts()

    def attach_to_parts(self) -> None:
        """Give tokenizer and settings to tasks within this one; most tasks have none."""

    def vector_model(self) -> Any:
        """Return the model whose output `encode` pools: the encoder, or a sentence encoder."""
        return self.encoder

    def required_tokenizer(self) -> Tokenizer:
        """Return the tokenizer.

        Raises:
            ValueError: the task has no tokenizer; the message says how to set one.
        """
        if self._tokenizer is None:
            reason = f" {self._without_tokenizer}" if self._without_tokenizer else ""
            raise ValueError(
                f"This {type(self).__name__} has no tokenizer, and text needs one.{reason} Set "
                "`task.tokenizer = bert_keras.Tokenizer.from_preset(...)`, or pass features "
                "(token_ids, padding_mask)."
            )
        return self._tokenizer

    def tell_missing_tokenizer(self, reason: str) -> None:
        """Store why a folder gave no tokenizer, for the message of `required_tokenizer`.

        Args:
            reason: a complete sentence.
        """
        self._without_tokenizer = reason

    @property
    def max_length(self) -> int:
        """Largest number of tokens in a text: as in training, else all positions of the encoder."""
        length = self.predictor_config.max_length
        positions = checked_length(None, self.encoder)
        return positions if length is None else min(length, positions)

    def _prediction_model(self) -> Any:
        """Return the model that the prediction methods run: the task itself.

        `Predictor` has the same prediction methods, and returns its task here.
        """
        return self

    def _prediction_options(self) -> Mapping[str, Any]:
        """Return the default options of the prediction method."""
        return self.predictor_config.options

    def _runner_of(self, model: Any, batch_size: int | None = None, **reading: Any) -> Runner:
        """Return a `Runner`, which tokenises texts and runs them through a model in batches.

        Args:
            model: this task, or its encoder for methods that need only vectors.
            batch_size: number of texts in a batch; None for 32.
            reading: `long_texts` and `stride` of the runner.

        Raises:
            ValueError: without a tokenizer.
        """
        tokenizer = self.required_tokenizer()
        size = _BATCH_SIZE if batch_size is None else batch_size
        return Runner(model, tokenizer, batch_size=size, max_length=self.max_length, **reading)

    def take_attachments(self, original: Any) -> None:
        """Take the tokenizer and the settings of another task, such as the original of a clone."""
        self._tokenizer = original._tokenizer
        self._without_tokenizer = original._without_tokenizer
        self.predictor_config = original.predictor_config  # its setter also calls `attach_to_parts`

    def save_assets(self, directory: str) -> None:
        """Keras: write the tokenizer and the settings into a `.keras` file."""
        if self._tokenizer is not None:
            self._tokenizer.save_to_preset(directory)
        if self.predictor_config != PredictorConfig():
            self.predictor_config.write(Path(directory) / FILE)

    def load_assets(self, directory: str | None) -> None:
        """Keras: read the files of `save_assets`; `directory` is None where it wrote none."""
        if directory is None:
            return
        folder = Path(directory)
        if any(path.name != FILE for path in folder.iterdir()):
            self.tokenizer = Tokenizer.from_preset(folder)
        if (folder / FILE).is_file():
            self.predictor_config = PredictorConfig.read(folder / FILE)


# === Checks that a model, a tokenizer and a length fit together ===


def encoder_for(task: Any, tokenizer: Tokenizer) -> Any:
    """Return the encoder of a task, or an encoder itself, and check that the tokenizer fits.

    Raises:
        TypeError: `task` is neither a task nor an encoder.
        ValueError: the tokenizer has ids for which the model has no vector.
    """
    encoder = getattr(task, "encoder", task)
    config = getattr(encoder, "config", None)
    if not isinstance(config, BertConfig):
        raise TypeError(
            "Expected a task or a BertEncoder, such as BertEncoder.from_preset(folder) opens. "
            f"Received: {type(task).__name__}"
        )
    config.check_rows(tokenizer.vocab_size)
    return encoder


def checked_length(max_length: int | None, encoder: Any) -> int:
    """Return the largest number of tokens in a text, after checking it.

    Args:
        max_length: number of tokens, [CLS] and [SEP] included; None for all positions.
        encoder: the encoder, whose config has the number of positions.

    Raises:
        ValueError: there is no room for a token beside [CLS] and [SEP], or too few positions.
    """
    positions = encoder.config.max_positions
    if max_length is None:
        return positions
    if not 2 < max_length <= positions:
        raise ValueError(
            f"`max_length` must be from 3 to {positions}, the model's positions. "
            f"Received: max_length={max_length}"
        )
    return max_length
