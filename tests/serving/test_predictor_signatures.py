"""Signatures of a predictor: the outputs of the SavedModel that would be exported of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras.predictor import Predictor
from bert_keras.serving.predictor_signatures import predictor_signatures, serves_task
from bert_keras.serving.signatures import DEFAULT, IDS, joined_rows, without_padding
from bert_keras.task_names import FINETUNED, PRETRAINED
from tests.contracts import inputs_of
from tests.serving.running import MASKED, TASKS, columns_for, predictor

NAMES = sorted(TASKS)


def run(signature: Any, name: str, rows: slice = slice(None)) -> dict[str, np.ndarray]:
    """Return the outputs of a signature for the inputs of a model of this name."""
    columns = columns_for(signature.inputs, rows)
    if name in ("masks", "pretrained") and list(signature.inputs) == ["text"]:
        columns["text"] = MASKED[rows]
    return signature.run(columns)


def whole(outputs: dict[str, Any]) -> dict[str, Any]:
    """Return outputs with 0 in the vectors of padding, which a model may fill with anything."""
    rows = range(len(next(iter(outputs.values()))))
    return joined_rows([without_padding({o: x[i] for o, x in outputs.items()}) for i in rows])


@pytest.mark.parametrize("name", NAMES)
def test_outputs_have_the_names_types_and_ranks_that_are_stated(name: str) -> None:
    model = predictor(name)
    signatures = predictor_signatures(model)
    assert next(iter(signatures)) == DEFAULT
    for key, signature in signatures.items():
        outputs = signature.run(inputs_of(model.task)) if key == IDS else run(signature, name)
        assert outputs.keys() == signature.outputs.keys(), key
        for output, spec in signature.outputs.items():
            values = outputs[output]
            assert values.ndim == len(spec.shape or ()), (key, output)
            kind = {"string": "O", "int32": "i", "float32": "f"}[spec.dtype]
            assert values.dtype.kind == kind, (key, output, values.dtype)


@pytest.mark.parametrize("name", NAMES)
def test_a_row_without_its_padding_is_the_row_alone(name: str) -> None:
    for key, signature in predictor_signatures(predictor(name)).items():
        if key == IDS:
            continue
        together = run(signature, name)
        rows = []
        for row in range(3):
            alone = run(signature, name, slice(row, row + 1))
            outputs = without_padding({o: values[row] for o, values in together.items()})
            rows.append(outputs)
            for output, values in alone.items():
                np.testing.assert_array_equal(np.shape(outputs[output]), values.shape[1:])
                if values.dtype.kind == "f":
                    np.testing.assert_allclose(outputs[output], values[0], atol=1e-5)
                else:
                    np.testing.assert_array_equal(outputs[output], values[0])
        again = joined_rows(rows)
        for output, values in together.items():
            np.testing.assert_array_equal(again[output], values)


def test_bytes_are_read_as_utf8_without_what_is_not() -> None:
    signature = predictor_signatures(predictor("labels"))[DEFAULT]
    texts = signature.run({"text": ["a film", "a"]})
    content = signature.run({"text": [b"a film", b"\xffa"]})
    np.testing.assert_array_equal(texts["scores"], content["scores"])


def test_every_task_that_answers_texts_is_served() -> None:
    names = {name for name in [*FINETUNED, *PRETRAINED] if serves_task(name)}
    # A discriminator answers no texts, and a retrieval model is served as its encoder.
    assert {*FINETUNED, *PRETRAINED} - names == {
        "electra_pretraining",
        "replaced_token_detection",
        "retrieval",
    }


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="needs TensorFlow's backend")
@pytest.mark.parametrize("name", NAMES)
def test_a_saved_model_gives_the_same_outputs(name: str, tmp_path: Path) -> None:
    from bert_keras import export
    from bert_keras.serving.saved_model import SavedModel

    model = predictor(name)
    options = {"max_question": 20} if name == "answers" else {}
    model.options.update(options)
    path = tmp_path / "model" / "1"
    export.saved_model(model.task, model.tokenizer, path, options=options)
    program = SavedModel(path)
    mine = predictor_signatures(model)
    assert {*mine, "training"} == set(program.signatures)
    for key, signature in mine.items():
        theirs = program.signatures[key]
        if key == IDS:
            columns = inputs_of(model.task)
            outputs, expected = signature.run(columns), theirs.run(columns)
        else:
            outputs, expected = whole(run(signature, name)), whole(run(theirs, name))
        assert outputs.keys() == expected.keys(), key
        assert {k: s.dtype for k, s in signature.inputs.items()} == {
            k: s.dtype for k, s in theirs.inputs.items()
        }
        for output, values in expected.items():
            assert signature.outputs[output].dtype == theirs.outputs[output].dtype, output
            if values.dtype.kind == "f":
                np.testing.assert_allclose(outputs[output], values, atol=1e-4, err_msg=output)
            else:
                np.testing.assert_array_equal(outputs[output], values, err_msg=output)


def test_entities_follow_the_option_of_the_predictor() -> None:
    shared = predictor("tags")
    model = Predictor(shared.task, shared.tokenizer, options={"aggregation": "none"})
    signature = predictor_signatures(model)[DEFAULT]
    columns = columns_for(signature.inputs)
    outputs = signature.run(columns)
    expected = model.predict_entities(columns["text"], aggregation="none")
    assert outputs["count"].tolist() == [len(row) for row in expected] != [0] * len(expected)
    for row, entities in enumerate(expected):
        found = without_padding({name: values[row] for name, values in outputs.items()})
        assert found["label"].tolist() == [entity.label for entity in entities]
