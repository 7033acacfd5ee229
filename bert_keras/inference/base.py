"""Base of all methods that take texts and return answers."""

from __future__ import annotations

from typing import Any

from bert_keras.inference.runner import Runner


class TextMethods:
    """Mixin of methods from texts to answers, shared by every task and by `Predictor`.

    A class says which model answers and with which tokenizer, batch size and length it runs.
    """

    def _answering(self) -> Any:
        """The task or encoder that answers."""
        raise NotImplementedError

    def _runner_of(self, model: Any) -> Runner:
        """Return the runner of a model with this tokenizer, batch size and length."""
        raise NotImplementedError

    def _runner(self) -> Runner:
        return self._runner_of(self._answering())

    def _require(self, output: str, method: str) -> None:
        """Raise `ValueError` unless the model has this output."""
        outputs = list(self._answering().output)
        if output not in outputs:
            raise ValueError(
                f"`{method}` needs a model with an output {output!r}. Received: a "
                f"{type(self._answering()).__name__} with {', '.join(map(repr, outputs))}"
            )
