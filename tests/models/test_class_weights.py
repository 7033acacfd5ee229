"""`class_weight` with features: the weights that `text_examples` gives, in every form of data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bert_keras import BertEncoder, SequenceClassifier, TokenClassifier
from bert_keras.data import dataset
from tests.models.test_auto_compile import warned
from tests.models.test_text_fit import QUIET, TEXTS, classifier, compiled, examples
from tests.models.test_with_tokenizer import CONFIG, task_over

WEIGHTS = {"bad": 1.0, "good": 3.0}


def _losses(x: Any, *more: Any, **options: Any) -> list[float]:
    task = compiled(classifier())
    found: list[float] = []
    warned(  # Keras warns at every end of a generator
        lambda: found.extend(
            task.fit(x, *more, epochs=1, shuffle=False, **options, **QUIET).history["loss"]
        )
    )
    return found


def _batches() -> Any:
    """Yield the batches in one width, as Keras on TensorFlow wants it of a generator."""
    made = examples(seed=None)
    for position in range(made.num_batches(0)):
        x, *rest = made.batch(0, position)
        yield (
            {name: np.pad(ids, ((0, 0), (0, 16 - ids.shape[1]))) for name, ids in x.items()},
            *rest,
        )


def test_every_form_of_data_gives_the_losses_of_weighed_examples() -> None:
    expected = _losses(dataset(examples(seed=None, class_weights=WEIGHTS)))
    sources = {"dataset": lambda: dataset(examples(seed=None)), "generator": _batches}
    for name, source in sources.items():
        for weights in (WEIGHTS, {0: 1.0, 1: 3.0}, {1: 3.0}):
            found = _losses(source(), class_weight=weights)
            np.testing.assert_allclose(found, expected, atol=1e-6, err_msg=name)


def test_arrays_have_labels_in_both_forms() -> None:
    made = examples(seed=None)
    x, y, _ = made.batch_of(0, np.arange(len(TEXTS)))
    weights = np.where(y["label"] == 1, 3.0, 1.0).astype(np.float32)
    expected = _losses(x, y, sample_weight={"label": weights}, batch_size=4)
    column = y["label"][:, None]
    for labels in (y, y["label"], y["label"].astype(np.int64), {"label": column}, column):
        found = _losses(x, labels, class_weight=WEIGHTS, batch_size=4)
        np.testing.assert_allclose(found, expected, atol=1e-6)
    halved = {"label": np.full(len(TEXTS), 0.5, np.float32)}
    found = _losses(x, y, sample_weight=halved, class_weight={"bad": 2.0, 1: 6.0}, batch_size=4)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_loader_of_pytorch_is_weighed() -> None:
    torch = pytest.importorskip("torch")
    made = examples(seed=None)
    x, y, _ = made.batch_of(0, np.arange(len(TEXTS)))

    def rows(weight: float | None) -> list[Any]:
        """Return examples: (x, y), or with a sample weight."""
        more = () if weight is None else ({"label": np.float32(weight)},)
        return [
            ({name: ids[row] for name, ids in x.items()}, {"label": y["label"][row]}, *more)
            for row in range(len(TEXTS))
        ]

    expected = _losses(x, y, class_weight=WEIGHTS, batch_size=4)
    for weight, classes in ((None, WEIGHTS), (0.5, {"bad": 2.0, "good": 6.0})):
        loader = torch.utils.data.DataLoader(rows(weight), batch_size=4)
        np.testing.assert_allclose(_losses(loader, class_weight=classes), expected, atol=1e-6)


def test_equal_weights_change_nothing() -> None:
    expected = _losses(dataset(examples(seed=None)))
    assert _losses(dataset(examples(seed=None)), class_weight={0: 1.0, 1: 1.0}) == expected


def test_what_has_no_class_is_refused() -> None:
    task = compiled(classifier())
    with pytest.raises(ValueError, match="names or indices of the labels bad, good"):
        task.fit(dataset(examples()), class_weight={2: 1.0}, **QUIET)
    x, y, _ = examples().batch(0, 0)
    with pytest.raises(ValueError, match="class indices"):
        task.fit(x, {"label": np.zeros((4, 2), np.float32)}, class_weight=WEIGHTS, **QUIET)

    kinds: list[dict[str, Any]] = [
        {"num_classes": 1},
        {"labels": ["a", "b"], "problem": "multi_label"},
    ]
    for options in kinds:
        task = SequenceClassifier(BertEncoder(CONFIG), **options)
        with pytest.raises(ValueError, match=r"one label of a text.*with problem="):
            task.fit(x, y, class_weight={0: 2.0}, **QUIET)
    tagger = task_over(TokenClassifier, BertEncoder(CONFIG))
    with pytest.raises(ValueError, match="whose output is the one label of a text"):
        tagger.fit(x, y, class_weight=WEIGHTS, **QUIET)
