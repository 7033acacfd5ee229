"""Table of the tasks of fine-tuning: the name and the class of each."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

from bert_keras.errors import UsageError
from bert_keras.training.finetune_recipe import FinetuneRecipe
from bert_keras.training.tasks.multiple_choice import MultipleChoiceTask
from bert_keras.training.tasks.question_answering import QuestionAnsweringTask
from bert_keras.training.tasks.sentence_similarity import (
    PairClassificationTask,
    RetrievalTask,
    SentenceSimilarityTask,
)
from bert_keras.training.tasks.task import FinetuningTask
from bert_keras.training.tasks.text_classification import TextClassificationTask
from bert_keras.training.tasks.text_ranking import TextRankingTask
from bert_keras.training.tasks.token_classification import TokenClassificationTask

TASKS: dict[str, type[FinetuningTask]] = {
    "text_classification": TextClassificationTask,
    "multi_label_classification": TextClassificationTask,
    "text_regression": TextClassificationTask,
    "token_classification": TokenClassificationTask,
    "question_answering": QuestionAnsweringTask,
    "multiple_choice": MultipleChoiceTask,
    "text_ranking": TextRankingTask,
    "sentence_similarity": SentenceSimilarityTask,
    "pair_classification": PairClassificationTask,
    "retrieval": RetrievalTask,
}


def task_of(
    recipe: FinetuneRecipe, measured: Mapping[str, Any] | None = None, *, measures: bool = True
) -> FinetuningTask:
    """Return the task of a recipe.

    Args:
        recipe: gives the name of the task, and its values.
        measured: metrics of the model on the validation examples; None if it was not measured.
        measures: whether the task will compute metrics, which may need further packages.

    Raises:
        UsageError: a package that computes the metrics is not installed.
    """
    task_class = TASKS[recipe.task]
    needed = task_class.packages if measures else ()
    if missing := [name for name in needed if importlib.util.find_spec(name) is None]:
        raise UsageError(
            f"task={recipe.task} is measured with {' and '.join(missing)}, which is not installed: "
            'pip install "bert-keras[finetune]"'
        )
    return task_class(recipe, measured)
