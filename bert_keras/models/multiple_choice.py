"""Multiple choice: the best of several endings or answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import keras
import numpy as np

from bert_keras import features
from bert_keras.data import Choices, SupervisedExamples, choice_examples
from bert_keras.data.columns import labels_of, texts_of, words_of_rows
from bert_keras.inference import ChoiceMethods
from bert_keras.inference.multiple_choice import choice_logits
from bert_keras.layers import MergeChoices, SplitChoices
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.task import Task, task_inputs
from bert_keras.models.text_classification import (
    CLS,
    HiddenLayer,
    takes_pooled_output,
    text_head,
    text_logits,
)
from bert_keras.tokenizers import Tokenizer


@keras.saving.register_keras_serializable(package="bert_keras")
@final
class MultipleChoice(ChoiceMethods, Task):
    """Chooses among texts, each of which is scored on its own (Devlin et al., 2019, §4.4).

    Inputs: the encoder's, with an axis for the choices: int32 [batch, choices, length].
    Output: {"choice": float32 logits [batch, choices]}.

    Args:
        encoder: the encoder.
        hidden_activation: as for `SequenceClassifier`.
        dropout: dropout rate before each layer of the head; None for the encoder's.
        hidden_dropout: as for `SequenceClassifier`.
        hidden_norm: as for `SequenceClassifier`.
        hidden_bias: as for `SequenceClassifier`.
        pooling: as for `SequenceClassifier`.
        name: name of the Keras model.
        tokenizer: the tokenizer of the encoder; None for a task that takes features alone.

    Raises:
        ValueError: the encoder has no pooler, and `hidden_activation` is None.
    """

    head_layers = (features.CHOICE,)
    task_name = "multiple_choice"
    answers_with = "predict_choices"
    text_inputs = ("prompt", "options")

    def __init__(
        self,
        encoder: BertEncoder,
        *,
        hidden_activation: str | None = None,
        dropout: float | None = None,
        hidden_dropout: float | None = None,
        hidden_norm: bool = False,
        hidden_bias: bool = True,
        pooling: str = CLS,
        name: str = "multiple_choice",
        tokenizer: Tokenizer | None = None,
    ):
        # === Layers ===
        hidden = HiddenLayer(hidden_activation, hidden_dropout, hidden_norm, hidden_bias)
        head = text_head(encoder, 1, hidden, dropout, features.CHOICE)
        # === Functional model ===
        inputs = {
            name: keras.Input((None, None), dtype="int32", name=name)
            for name in task_inputs(encoder)
        }
        texts = {name: MergeChoices(name=f"{name}_of_texts")(x) for name, x in inputs.items()}
        scores = text_logits(encoder, texts, head, hidden, pooling)
        split = SplitChoices(name="choices")
        outputs = {features.CHOICE: split(scores, inputs[features.TOKEN_IDS])}
        options = {
            "hidden_activation": hidden_activation,
            "dropout": dropout,
            "hidden_dropout": hidden_dropout,
            **hidden.more_options(),
        }
        if pooling != CLS:
            options["pooling"] = pooling
        super().__init__(encoder, inputs, outputs, options=options, name=name, tokenizer=tokenizer)
        self.head = head

    @property
    def reads_pooler(self) -> bool:
        """True unless the head has a dense layer of its own over [CLS], or reads other vectors."""
        return takes_pooled_output(self.options)

    def examples_of(self, columns: Sequence[Any], y: Any, **options: Any) -> SupervisedExamples:
        """Encode prompts and their options to examples.

        Args:
            columns: the prompts, list of str, and the options of each prompt, list of lists of str.
            y: index of the right option of each prompt, int [prompts]; None for no labels.
            options: arguments of `choice_examples`; see `FitsText.examples_of`.
        """
        prompts, choices = texts_of("prompt", columns[0]), words_of_rows("options", columns[1])
        answers = None if y is None else labels_of("y", y)
        examples = Choices(prompts, choices, answers)
        return choice_examples(self.required_tokenizer(), examples, **options)

    def logits_of(
        self, columns: Sequence[Any], batch_size: int | None = None, **reading: Any
    ) -> np.ndarray:
        """Return the logits of the options: float32 [prompts, options]."""
        prompts, choices = texts_of("prompt", columns[0]), words_of_rows("options", columns[1])
        return choice_logits(self._runner(batch_size, **reading), prompts, choices)

    def loss_and_metrics(self) -> dict[str, Any]:
        """Return the cross-entropy and accuracy of the right choice.

        Labels are {"choice": int [batch]}, the index of the right choice.
        """
        accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
        return {
            "loss": {features.CHOICE: keras.losses.SparseCategoricalCrossentropy(from_logits=True)},
            "weighted_metrics": {features.CHOICE: [accuracy]},
        }
