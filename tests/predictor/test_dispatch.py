"""A predictor calls the method of its task, and an answer depends on nothing but its own text."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from bert_keras.errors import DataError
from bert_keras.inference import batching as running
from bert_keras.predictor import Choice, Predictor
from tests.contracts import MAY_CUT

TEXTS = [
    "hello world",
    "the wanted mask. " * 5,
    "un",
    "",
    "a b c d e f g h i",
    "Unaffable 中国 hello!",
    "the un wanted world",
]
OTHERS = ["wanted", "a", "hello hello", "b c", "", "mask", "un un un"]
OPTIONS = [[text, other, "the"] for text, other in zip(OTHERS, TEXTS, strict=True)]
CONTEXTS = [text * 3 for text in TEXTS]
ARGUMENTS: dict[str, tuple[list[Any], ...]] = {
    "labels": (TEXTS, OTHERS),
    "several": (TEXTS,),
    "numbers": (TEXTS, OTHERS),
    "tags": (TEXTS,),
    "linked": (TEXTS,),
    "answers": (OTHERS, CONTEXTS),
    "choices": (TEXTS, OPTIONS),
    "vectors": (TEXTS,),
    "pairs": (TEXTS, OTHERS),
}
METHODS = {
    **dict.fromkeys(("labels", "several", "pairs"), "predict_labels"),
    **dict.fromkeys(("tags", "linked"), "predict_entities"),
    "numbers": "predict_scores",
    "answers": "predict_answers",
    "choices": "predict_choices",
    "vectors": "encode",
}


@pytest.mark.parametrize("kind", ARGUMENTS)
@MAY_CUT
def test_a_call_is_what_the_model_is_for(task, tokenizer, kind: str) -> None:
    """Calling a predictor calls the method of its task."""
    predictor = Predictor(task(kind), tokenizer)
    method = getattr(predictor, METHODS[kind])
    assert_alike(predictor(*ARGUMENTS[kind]), method(*ARGUMENTS[kind]), 0)
    with pytest.raises(ValueError, match=r"`fill_mask` needs a model with an output 'mlm'"):
        predictor.fill_mask(["[MASK]"])


def test_options_are_handed_on(task, tokenizer) -> None:
    assert [len(row) for row in Predictor(task("labels"), tokenizer)(TEXTS, top_k=2)] == [2] * 7
    predictor = Predictor(task("labels"), tokenizer, options={"top_k": 2})
    assert [len(row) for row in predictor(TEXTS)] == [2] * 7
    assert [len(row) for row in predictor(TEXTS, top_k=1)] == [1] * 7
    with pytest.raises(
        ValueError, match=r"`options` must be of `predict_labels`: .*Received: n_best"
    ):
        Predictor(task("labels"), tokenizer, options={"n_best": 4})


def assert_alike(found: Any, expected: Any, atol: float) -> None:
    """Assert that numbers are close and that everything else is equal, in nested values too."""
    if isinstance(expected, str | int):
        assert found == expected
    elif isinstance(expected, float | np.ndarray | np.floating):
        np.testing.assert_allclose(found, expected, rtol=0, atol=atol)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_alike(one, other, atol)
    else:
        assert type(found) is type(expected)
        for name in expected.__slots__:
            assert_alike(getattr(found, name), getattr(expected, name), atol)


@pytest.mark.parametrize("kind", ARGUMENTS)
@MAY_CUT
def test_nothing_beside_a_text_changes_its_answer(
    task, tokenizer, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """An answer does not depend on the order of the texts, the batch size or the padding."""
    arguments = ARGUMENTS[kind]
    expected = list(Predictor(task(kind), tokenizer)(*arguments))
    turned = [column[::-1] for column in arguments]
    for batch_size in (1, 3):
        found = list(Predictor(task(kind), tokenizer, batch_size=batch_size)(*turned))
        assert_alike(found[::-1], expected, 1e-5)
    monkeypatch.setattr(running, "_SHORTEST", 32)
    assert_alike(list(Predictor(task(kind), tokenizer)(*arguments)), expected, 1e-5)
    for number in (3, 5):
        alone = Predictor(task(kind), tokenizer)(*([column[number]] for column in arguments))
        assert_alike(list(alone), expected[number : number + 1], 1e-5)


@pytest.mark.parametrize("kind", ["labels", "several", "tags", "linked", "pairs"])
def test_the_order_of_the_labels_changes_no_answer(task, tokenizer, kind: str) -> None:
    one = task(kind)
    turned: dict[str, Any] = {**one.options, "labels": one.options["labels"][::-1]}
    other = type(one)(one.encoder, **turned)
    for layer, again in ((one.head, other.head), *_fields(one, other)):
        for weight, copy in zip(layer.weights, again.weights, strict=True):
            axes = [axis for axis, size in enumerate(weight.shape) if size == len(turned["labels"])]
            copy.assign(keras.ops.flip(weight, axis=axes))
    is_tagger = kind in ("tags", "linked")
    method = "predict_tags" if is_tagger else "predict_labels"
    arguments = ([text.split() for text in TEXTS],) if is_tagger else ARGUMENTS[kind]
    found, expected = (
        getattr(Predictor(each, tokenizer), method)(*arguments) for each in (other, one)
    )
    if kind == "several":
        found, expected = ([sorted(row, key=str) for row in rows] for rows in (found, expected))
    assert_alike(found, expected, 1e-5)


def _fields(one: Any, other: Any) -> list[tuple[Any, Any]]:
    """Return the CRF layers of both tasks as a pair, if they have one."""
    return [(one.crf, other.crf)] if getattr(one, "crf", None) is not None else []


@MAY_CUT
def test_choices(task, tokenizer) -> None:
    prompts, all_options = ["", TEXTS[0], *TEXTS], [OPTIONS[0], ["a", "b", "c", "d"], *OPTIONS]
    found = Predictor(task("choices"), tokenizer, batch_size=2)(prompts, all_options)
    for prompt, options, choice in zip(prompts, all_options, found, strict=True):
        firsts = [prompt] * len(options)
        columns = (firsts, options) if prompt else (options, None)
        x = tokenizer(*columns, max_length=32)
        x = {name: values[None] for name, values in x.items()}
        logits = task("choices").predict_on_batch(x)["choice"][0].astype(np.float64)
        shares = np.exp(logits) / np.exp(logits).sum()
        best = int(logits.argmax())
        assert choice == Choice(best, options[best], choice.score)
        assert choice.score == pytest.approx(shares[best], abs=1e-5)


def test_choices_that_are_no_use(task, tokenizer) -> None:
    """A prompt with fewer than two options, and unequal columns, are refused."""
    predictor = Predictor(task("choices"), tokenizer)
    assert predictor([], []) == []
    with pytest.raises(DataError, match="row 1: a row needs at least two options"):
        predictor(["a", "b"], [["a", "b"], ["a"]])
    with pytest.raises(DataError, match="All columns must have the same length"):
        predictor(["a"], [])
    with pytest.raises(TypeError, match="`prompts` is one text or row"):
        predictor("a", [["a", "b"]])
    with pytest.raises(ValueError, match=r"`predict_choices` needs .*'choice'.*SentenceEncoder"):
        Predictor(task("vectors"), tokenizer).predict_choices(["a"], [["a", "b"]])
