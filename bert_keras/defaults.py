"""Default values of fine-tuning, shared by `fit` of a task and by recipes."""

from __future__ import annotations

from dataclasses import dataclass

WIDTH = 384  # hidden size of the encoder that the rates were measured with, MiniLM


@dataclass(frozen=True)
class FinetuningDefaults:
    """Values of a fine-tuning for which the caller names none.

    Attributes:
        learning_rate: the rate at the end of the warm-up, of an encoder that is `WIDTH` wide.
        tags_learning_rate: that of token classification.
        warmup: share of the steps in which the rate rises from 0.
        schedule: the fall afterwards, a name of `WarmupDecay`.
        weight_decay: of kernels and tables.
        clip_norm: largest norm of the gradient.
        batch_size: examples in a batch.
        max_length: most tokens of a row.
    """

    learning_rate: float = 1e-4
    tags_learning_rate: float = 5e-4
    warmup: float = 0.1
    schedule: str = "linear"
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    batch_size: int = 32
    max_length: int = 128

    def learning_rate_of(self, task: str, hidden_size: int = WIDTH) -> float:
        """Return the rate of a task, which wider encoders need lower (docs/decisions.md, 105).

        It falls with the square of the width: of text classification it is 2.5e-5 for BERT-base
        and 1.4e-5 for BERT-large, within what their authors recommend (Devlin et al., 2019, A.3).

        Args:
            task: its name in `task_names`.
            hidden_size: the width of the encoder.
        """
        rate = self.tags_learning_rate if task == "token_classification" else self.learning_rate
        return rate * min(1.0, WIDTH / hidden_size) ** 2


FINETUNING = FinetuningDefaults()
