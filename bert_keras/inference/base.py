"""Base of all methods that take texts and return answers."""

from __future__ import annotations

from typing import Any

from bert_keras import features
from bert_keras.inference.runner import Runner

# Output -> the call that opens a checkpoint with the head that has it.
_CURES = {
    features.LABEL: "SequenceClassifier.from_preset(folder, labels=[...])",
    features.TAGS: "TokenClassifier.from_preset(folder, labels=[...])",
    features.START: "QuestionAnswerer.from_preset(folder, new_head=True)",
    features.CHOICE: "MultipleChoice.from_preset(folder, new_head=True)",
    features.MLM: "MaskedLM.from_preset(folder)",
    features.NSP: "Pretrainer.from_preset(folder)",
}


class TextMethods:
    """Mixin of methods from texts to answers, shared by every task and by `Predictor`.

    A class says which model answers and with which tokenizer, batch size and length it runs.
    """

    def _answering(self) -> Any:
        """The task or encoder that answers."""
        raise NotImplementedError

    def _runner_of(self, model: Any, batch_size: int | None = None) -> Runner:
        """Return the runner of a model with this tokenizer and length.

        Args:
            model: the model that runs.
            batch_size: number of texts that run together; None for that of the class.
        """
        raise NotImplementedError

    def _runner(self, batch_size: int | None = None) -> Runner:
        return self._runner_of(self._answering(), batch_size)

    def _require(self, output: str, method: str) -> None:
        """Raise `ValueError` unless the model has this output."""
        outputs = list(self._answering().output)
        if output not in outputs:
            raise ValueError(
                f"`{method}` needs a model with an output {output!r}. Received: a "
                f"{type(self._answering()).__name__} with {', '.join(map(repr, outputs))}. "
                f"{_CURES[output]} opens such a model; a new head must be trained by `fit` first."
            )
