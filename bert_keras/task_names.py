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
    "text_ranking": ("TextRanker",),
    "sentence_similarity": ("SentencePairs", "SentenceEncoder"),
    "pair_classification": ("SentencePairs",),
    "retrieval": ("SentencePairs",),
}
# The same for tasks that are pretrained, or are part of pretraining.
PRETRAINED: dict[str, tuple[str, ...]] = {
    "fill_mask": ("MaskedLM",),
    "pretraining": ("Pretrainer",),
    "electra_pretraining": ("ElectraPretrainer",),
    "replaced_token_detection": ("ReplacedTokenDetector",),
}
# Tasks whose examples are a table of texts, or of pairs.
TEXT_TASKS = (
    *("text_classification", "multi_label_classification", "text_regression"),
    *("sentence_similarity", "pair_classification", "retrieval", "text_ranking"),
)
# Tasks whose models read a long text in overlapping windows.
WINDOW_TASKS = ("token_classification", "question_answering")
# Tasks whose code is in the files of another task: a variant of it, or a part.
SHARED_FILES: dict[str, str] = {
    **dict.fromkeys(("multi_label_classification", "text_regression"), "text_classification"),
    **dict.fromkeys(("pair_classification", "retrieval"), "sentence_similarity"),
    **dict.fromkeys(("electra_pretraining", "replaced_token_detection"), "pretraining"),
}
_WHOLE_TEXTS = "text_classification.py has all answers for whole texts, in a class of methods"
_RAW_OUTPUTS = "the file has the outputs of `predict`; the client turns them into answers"
# Folder -> tasks without a file of their name there, with the reason. All other tasks have one.
# Files of `layers` and `kernels` are named by their mathematics, those of `checkpoints` by formats,
# and those of `predictor` by what they read.
WITHOUT_FILE: dict[str, dict[str, str]] = {
    "data": {},
    "metrics": {
        "multiple_choice": "accuracy, which text_classification.py has",
        "fill_mask": "loss and accuracy are Keras metrics of the model",
        "pretraining": "losses and accuracies are Keras metrics of the model",
    },
    "inference": {"pretraining": "answers are those of fill_mask, and `next_sentence` beside it"},
    "models": {},
    "export/graph": dict.fromkeys(
        ("multiple_choice", "sentence_similarity", "text_ranking", "fill_mask", "pretraining"),
        _WHOLE_TEXTS,
    ),
    "export/runtimes": dict.fromkeys(
        (
            *("text_classification", "question_answering", "multiple_choice"),
            *("sentence_similarity", "text_ranking", "fill_mask", "pretraining"),
        ),
        _RAW_OUTPUTS,
    ),
    "training/tasks": {
        "fill_mask": "a recipe of pretraining with loss=mlm",
        "pretraining": "the program `bert-keras pretrain`",
    },
}


def tasks_of_class(class_name: str) -> list[str]:
    """Return the names of the tasks that a class is for."""
    tasks = {**FINETUNED, **PRETRAINED}
    return [name for name, classes in tasks.items() if class_name in classes]


# === Default values of fine-tuning ===


WIDTH = 384  # hidden size of MiniLM, with which the rates were measured
_BASE_WIDTH = 768  # hidden size of BERT-base


@dataclass(frozen=True)
class FinetuningDefaults:
    """Default values of fine-tuning.

    Attributes:
        learning_rate: highest rate for an encoder of hidden size `WIDTH`.
        tags_learning_rate: the same for token classification.
        base_learning_rate: highest rate for BERT-base.
        base_tags_learning_rate: the same for token classification.
        warmup: share of the steps in which the rate rises from 0.
        schedule: schedule after the warm-up; see `WarmupDecay`.
        weight_decay: decay rate of kernels and tables.
        clip_norm: maximum of the global norm of the gradients.
        batch_size: number of examples in a batch.
        max_length: maximum number of tokens of a row.
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
        """Return the highest rate for a task. Wider encoders need lower rates.

        The rates for MiniLM are measured (docs/decisions.md, 105). Those for BERT-base are not:
        they are taken from the range that its authors tried, 2e-5 to 5e-5 (Devlin et al., 2019,
        A.3). For other sizes above `WIDTH`, a power law through both is used. It gives 1.4e-5 for
        BERT-large, and 1.9e-5 for token classification.

        Args:
            task: name of the task.
            hidden_size: hidden size of the encoder.
        """
        is_tags = task == "token_classification"
        rate = self.tags_learning_rate if is_tags else self.learning_rate
        base_rate = self.base_tags_learning_rate if is_tags else self.base_learning_rate
        exponent = math.log(rate / base_rate) / math.log(_BASE_WIDTH / WIDTH)
        return rate * min(1.0, WIDTH / hidden_size) ** exponent


FINETUNING = FinetuningDefaults()
