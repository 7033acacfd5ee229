"""SavedModels of all tasks give the answers of `Predictor` in a process with TensorFlow alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import export
from bert_keras.predictor import Predictor
from bert_keras.tokenizers import Tokenizer
from tests.answering import PAIRS, VOCABULARY, columns_of, new_tasks, texts_with
from tests.contracts import MAY_CUT
from tests.processes import run_client

pytest.importorskip("tensorflow")
ON_TENSORFLOW = keras.backend.backend() == "tensorflow"

OPTIONS = {"questions": {"max_question": 8, "stride": 10}, "fills": {"top_k": 2}}

# Portable models need neither this package nor tensorflow-text.
CLIENT = """
import sys
sys.modules["bert_keras"] = sys.modules["tensorflow_text"] = None
import json, numpy, tensorflow as tf
folder = sys.argv[1]
wanted = json.load(open(folder + "/wanted.json"))
results = {}
for name, columns in wanted.items():
    model = tf.saved_model.load(f"{folder}/{name}")
    run = model.signatures["serving_default"]
    columns = {key: tf.constant(values) for key, values in columns.items()}
    size = len(next(iter(columns.values())))
    def answer(start, stop):
        return run(**{key: values[start:stop] for key, values in columns.items()})
    def keep(kind, found):
        for key, value in found.items():
            results[f"{name}/{kind}/{key}"] = value.numpy()
    for start in range(0, size, 64):
        keep(f"{start}", answer(start, start + 64))
    keep("empty", answer(0, 0))
    for row in range(32):
        keep(f"alone{row}", answer(row, row + 1))
    keep("together", answer(0, 32))
    odd = [b"\\xff[MASK] a\\xe4\\xb8", b"the test " * 12_000, b"", b"a [MASK] b"]
    shape = [4, 2] if "options" in columns else [4]
    text = {key: tf.constant(odd) for key in columns}
    if "options" in columns:
        text["options"] = tf.stack([tf.constant(odd), tf.constant([b"the test"] * 4)], axis=1)
    keep("odd", run(**text))
    keep("last", run(**{key: values[3:] for key, values in text.items()}))
results = {n: v.astype("S") if v.dtype == object else v for n, v in results.items()}
numpy.savez(f"{folder}/results.npz", **results)
"""


@pytest.fixture(scope="module")
def texts(naughty: list[str]) -> list[str]:
    return texts_with(naughty, 576)


@pytest.fixture(scope="module")
def predictors(request: pytest.FixtureRequest) -> dict[str, Predictor]:
    """Return predictors of the tasks whose tests are selected."""
    tokenizer = Tokenizer(VOCABULARY)
    selected = {
        item.callspec.params["name"]
        for item in request.session.items
        if item.path == request.path and isinstance(item, pytest.Function)
    }
    return {
        name: Predictor(task, tokenizer, options=OPTIONS.get(name))
        for name, task in new_tasks().items()
        if name in selected and (ON_TENSORFLOW or name == "labels")
    }


@pytest.fixture(scope="module")
def results(predictors, texts: list[str], tmp_path_factory) -> dict[str, np.ndarray]:
    """Return the outputs of a new process, from folders that were moved after the export."""
    written, folder = tmp_path_factory.mktemp("written"), tmp_path_factory.mktemp("moved")
    for name, predictor in predictors.items():
        export.saved_model(
            predictor.task,
            predictor.tokenizer,
            written / name,
            options=predictor.options,
            pairs=name in PAIRS,
            portable=True,
        )
        (written / name).rename(folder / name)
    wanted = {name: columns_of(name, texts) for name in predictors}
    (folder / "wanted.json").write_text(json.dumps(wanted), encoding="utf-8")
    run_client(CLIENT, str(folder), folder=folder)
    return dict(np.load(folder / "results.npz"))


def decoded(values: np.ndarray) -> list[str]:
    return [value.decode() for value in values]


def check_labels(found: Callable, predictor: Predictor, columns: list[list[str]]) -> None:
    expected = predictor.predict_labels(*columns, top_k=len(predictor.label_names))
    for row, best in enumerate(expected):
        assert decoded(found("labels", row)) == [label.label for label in best]
        np.testing.assert_allclose(found("scores", row), [b.score for b in best], atol=1e-5)


def check_entities(found: Callable, predictor: Predictor, columns: list[list[str]]) -> None:
    for row, entities in enumerate(predictor.predict_entities(*columns)):
        count = int(found("count", row))
        names = ("label", "text", "start", "end")
        got = zip(*(found(name, row)[:count] for name in names), strict=True)
        assert [(a.decode(), b.decode(), c, d) for a, b, c, d in got] == [
            (entity.label, entity.text, entity.start, entity.end) for entity in entities
        ]
        scores = [entity.score for entity in entities]
        np.testing.assert_allclose(found("score", row)[:count], scores, atol=1e-5)


def check_questions(found: Callable, predictor: Predictor, columns: list[list[str]]) -> None:
    for row, answer in enumerate(predictor(*columns)):
        assert (found("start", row), found("end", row)) == (answer.start, answer.end)
        assert found("answer", row).decode() == answer.text
        assert found("score", row) == pytest.approx(answer.score, abs=1e-5)
        null_score = min(answer.null_score, np.finfo(np.float32).max)
        assert found("null_score", row) == pytest.approx(null_score, abs=1e-4)


def check_choices(found: Callable, predictor: Predictor, columns: list[Any]) -> None:
    for row, choice in enumerate(predictor.predict_choices(*columns)):
        assert found("index", row) == choice.index
        assert found("choice", row).decode() == choice.text
        assert found("scores", row).max() == found("score", row)
        assert found("score", row) == pytest.approx(choice.score, abs=1e-5)


def check_vectors(found: Callable, predictor: Predictor, columns: list[list[str]]) -> None:
    for row, vector in enumerate(predictor.encode(*columns)):
        np.testing.assert_allclose(found("sentence_vector", row), vector, atol=1e-5)


def check_fills(found: Callable, predictor: Predictor, columns: list[list[str]]) -> None:
    for row, masks in enumerate(predictor.fill_mask(*columns, top_k=2)):
        assert found("mask_count", row) == len(masks)
        for place, fills in enumerate(masks):
            scores = [fill.score for fill in fills]
            assert found("token_ids", row)[place].tolist() == [fill.token_id for fill in fills]
            assert decoded(found("tokens", row)[place]) == [fill.token for fill in fills]
            np.testing.assert_allclose(found("scores", row)[place], scores, atol=1e-5)


def check_numbers(found: Callable, predictor: Predictor, columns: list[list[str]]) -> None:
    for row, numbers in enumerate(predictor.predict_scores(*columns)):
        np.testing.assert_allclose(found("scores", row), numbers, atol=1e-5)


def check_cosines(found: Callable, predictor: Predictor, columns: list[list[str]]) -> None:
    for row, cosine in enumerate(predictor.similarity(*columns)):
        assert found("similarity", row) == pytest.approx(cosine, abs=1e-5)


CHECKS = {
    "labels": check_labels,
    "pairs": check_labels,
    "entities": check_entities,
    "questions": check_questions,
    "choices": check_choices,
    "vectors": check_vectors,
    "fills": check_fills,
    "numbers": check_numbers,
    "several": check_labels,
    "crf": check_entities,
    "cosines": check_cosines,
    "encoder": check_vectors,
}


@pytest.mark.parametrize("name", CHECKS)
@MAY_CUT
def test_answers_are_the_predictors(name: str, predictors, results, texts) -> None:
    if name not in predictors:
        pytest.skip("another backend exports through the same program: one task shows it")

    def found(output: str, row: int) -> Any:
        return results[f"{name}/{row // 64 * 64}/{output}"][row % 64]

    CHECKS[name](found, predictors[name], list(columns_of(name, texts).values()))


@pytest.mark.parametrize("name", CHECKS)
def test_rows_do_not_disturb_each_other(name: str, predictors, results) -> None:
    """A row has the same outputs in a batch, alone, and beside invalid bytes and 100 kB of text."""
    if name not in predictors:
        pytest.skip("another backend exports through the same program: one task shows it")
    outputs = [key.rpartition("/")[2] for key in results if key.startswith(f"{name}/together/")]
    assert outputs
    for output in outputs:
        has_padding = output == "sequence_output"
        together = results[f"{name}/together/{output}"]
        assert results[f"{name}/empty/{output}"].shape[0] == 0
        for row in range(32):
            alone = results[f"{name}/alone{row}/{output}"][0]
            same(together[row], alone, has_padding)
        odd = results[f"{name}/odd/{output}"]
        same(odd[3], results[f"{name}/last/{output}"][0], has_padding)
        assert odd.dtype.kind != "f" or np.isfinite(odd).all()


def same(row: np.ndarray, alone: np.ndarray, has_padding: bool) -> None:
    """Assert that a row of a batch equals the row alone, and that its padding is empty.

    Only the vectors of padding tokens may have values.
    """
    if row.ndim:
        assert has_padding or not row[len(alone) :].astype(bool).any()
        row = row[: len(alone)]
    if row.dtype.kind == "f":
        np.testing.assert_allclose(row, alone, atol=1e-5)
    else:
        np.testing.assert_array_equal(row, alone)
