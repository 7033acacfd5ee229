"""Names of the tasks, the same in recipes, commands and pages, and the classes that do them."""

from __future__ import annotations

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


def names_of(class_name: str) -> list[str]:
    """Return the names of the tasks that a class does."""
    every = {**FINETUNED, **PRETRAINED}
    return [name for name, classes in every.items() if class_name in classes]
