"""Table of the tasks of fine-tuning: the name of each and its kind."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

from bert_keras.errors import UsageError
from bert_keras.training.finetune_recipe import FinetuneRecipe
from bert_keras.training.kinds.choices import MultipleChoices
from bert_keras.training.kinds.entities import Entities
from bert_keras.training.kinds.kind import Kind
from bert_keras.training.kinds.labels import Labels
from bert_keras.training.kinds.pair_labels import PairLabels
from bert_keras.training.kinds.questions import Questions
from bert_keras.training.kinds.retrieval import Retrieval
from bert_keras.training.kinds.similarity import Similarity

KINDS: dict[str, type[Kind]] = {
    "text_classification": Labels,
    "multi_label_classification": Labels,
    "text_regression": Labels,
    "token_classification": Entities,
    "question_answering": Questions,
    "multiple_choice": MultipleChoices,
    "sentence_similarity": Similarity,
    "pair_classification": PairLabels,
    "retrieval": Retrieval,
}


def kind_of(
    recipe: FinetuneRecipe, measured: Mapping[str, Any] | None = None, *, measures: bool = True
) -> Kind:
    """Return the kind of a recipe's task.

    Args:
        recipe: its values.
        measured: the model's metrics on dev, if it has any.
        measures: whether it is put to metrics now.

    Raises:
        UsageError: these need a package that is not installed.
    """
    kind = KINDS[recipe.task]
    needed = kind.packages if measures else ()
    if missing := [name for name in needed if importlib.util.find_spec(name) is None]:
        raise UsageError(
            f"task={recipe.task} is measured with {' and '.join(missing)}, which is not installed: "
            'pip install "bert-keras[finetune]"'
        )
    return kind(recipe, measured)
