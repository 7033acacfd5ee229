"""Names of the tasks, their classes, and the default values of fine-tuning."""

from __future__ import annotations

import math
from dataclasses import dataclass

ENCODER = "BertEncoder"  # the class without a head

# Name of a task that recipes fine-tune -> its classes in `bert_keras`. Hugging Face's names of
# pipelines where there is one.
FINETUNED: dict[str, tuple[str, ...]] = {
    "text_classification": ("SequenceClassifier",),
    "multi_label_classification": ("SequenceClassifier",),
    "text_regression": ("SequenceClassifier",),
    "token_classification": ("TokenClassifier",),
    "question_answering": ("QuestionAnswerer",),
    "multiple_choice": ("MultipleChoice",),
    "sentence_similarity": ("SentencePairs", "SentenceEncoder"),
    "pair_classification": ("SentencePairs",),
    "retrieval": ("SentencePairs",),
}
# Likewise of tasks that are pretrained, or are part of pretraining.
PRETRAINED: dict[str, tuple[str, ...]] = {
    "fill_mask": ("MaskedLM",),
    "pretraining": ("Pretrainer",),
    "electra_pretraining": ("ElectraPretrainer",),
    "replaced_token_detection": ("ReplacedTokenDetector",),
}
# Tasks whose examples are a table of texts, or of pairs.
TEXT_TASKS = (
    *("text_classification", "multi_label_classification", "text_regression"),
    *("sentence_similarity", "pair_classification", "retrieval"),
)


def names_of(class_name: str) -> list[str]:
    """Return the names of the tasks that a class does."""
    every = {**FINETUNED, **PRETRAINED}
    return [name for name, classes in every.items() if class_name in classes]


# === Default values of fine-tuning ===


WIDTH = 384  # hidden size of the encoder that the rates were measured with, MiniLM
_BASE_WIDTH = 768  # of BERT-base


@dataclass(frozen=True)
class FinetuningDefaults:
    """Values of a fine-tuning for which the caller names none.

    Attributes:
        learning_rate: the rate at the end of the warm-up, of an encoder that is `WIDTH` wide.
        tags_learning_rate: that of token classification.
        base_learning_rate: the rate for BERT-base.
        base_tags_learning_rate: that of token classification for BERT-base.
        warmup: share of the steps in which the rate rises from 0.
        schedule: the fall afterwards, a name of `WarmupDecay`.
        weight_decay: of kernels and tables.
        clip_norm: largest norm of the gradient.
        batch_size: examples in a batch.
        max_length: most tokens of a row.
    """

    learning_rate: float = 1e-4
    tags_learning_rate: float = 5e-4
    base_learning_rate: float = 2.5e-5
    base_tags_learning_rate: float = 5e-5
    warmup: float = 0.1
    schedule: str = "linear"
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    batch_size: int = 32
    max_length: int = 128

    def learning_rate_of(self, task: str, hidden_size: int = WIDTH) -> float:
        """Return the rate of a task, which wider encoders need lower (docs/decisions.md, 105).

        Those of MiniLM are measured. Those of BERT-base are not: they lie within the rates that
        its authors tried, 2e-5 to 5e-5 (Devlin et al., 2019, A.3). For other widths above `WIDTH`
        the rate lies on the power law through the two: for BERT-large 1.4e-5, and 1.9e-5 for tags.

        Args:
            task: its name in `task_names`.
            hidden_size: the width of the encoder.
        """
        is_tags = task == "token_classification"
        rate = self.tags_learning_rate if is_tags else self.learning_rate
        base_rate = self.base_tags_learning_rate if is_tags else self.base_learning_rate
        exponent = math.log(rate / base_rate) / math.log(_BASE_WIDTH / WIDTH)
        return rate * min(1.0, WIDTH / hidden_size) ** exponent


FINETUNING = FinetuningDefaults()
