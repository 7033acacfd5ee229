"""TensorFlow Serving's REST protocol: rows, columns, classify, regress, status and metadata."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

from bert_keras.serving.predictor_signatures import predictor_signatures
from bert_keras.serving.signatures import IDS
from tests.serving.running import MASKED, TASKS, TEXTS, Running, columns_for, predictor


def request_columns(name: str, signature: Any) -> dict[str, Any]:
    columns = columns_for(signature.inputs)
    is_masked = name in ("masks", "pretrained") and list(signature.inputs) == ["text"]
    return {"text": MASKED} if is_masked else columns


@pytest.mark.parametrize("name", TASKS)
def test_rows_and_columns_give_the_outputs_of_the_model(served: Running, name: str) -> None:
    for key, signature in predictor_signatures(predictor(name)).items():
        if key == IDS:
            continue
        columns = request_columns(name, signature)
        expected = {k: x.tolist() for k, x in signature.run(columns).items()}
        path, options = f"/v1/models/{name}:predict", {"signature_name": key}
        outputs = served.ask(path, {**options, "inputs": columns})["outputs"]
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        predictions = served.ask(path, {**options, "instances": rows})["predictions"]
        if len(expected) == 1:  # the value itself, without its name
            ((only, values),) = expected.items()
            outputs, predictions = {only: outputs}, [{only: value} for value in predictions]
            assert len(values) == len(predictions)
        assert outputs.keys() == expected.keys()
        for output, values in expected.items():
            by_row = [row[output] for row in predictions]
            if isinstance(np.ravel(np.array(values, object))[0], float):
                np.testing.assert_allclose(outputs[output], values, atol=1e-5)
                np.testing.assert_allclose(by_row, values, atol=1e-5)
            else:
                assert outputs[output] == values
                assert by_row == values


def test_ids_are_numbers(served: Running) -> None:
    rows = predictor("labels").tokenizer(TEXTS)
    inputs = {key: value.tolist() for key, value in rows.items()}
    body = {"signature_name": "ids", "inputs": inputs}
    outputs = served.ask("/v1/models/labels:predict", body)["outputs"]
    expected = predictor("labels").task.predict(rows, verbose=0)["label"]
    np.testing.assert_allclose(outputs, expected, atol=1e-5)


def test_base64_and_a_single_value(served: Running) -> None:
    path = "/v1/models/vectors:predict"
    plain = served.ask(path, {"instances": ["a fine film"]})
    content = base64.b64encode(b"a fine film").decode()
    assert served.ask(path, {"instances": [{"b64": content}]}) == plain
    assert served.ask(path, {"instances": [{"text": {"b64": content}}]}) == plain
    assert served.ask(path, {"inputs": ["a fine film"]})["outputs"] == plain["predictions"]


def test_a_pair_of_a_text_and_base64(served: Running) -> None:
    """Truncated texts are counted only where all are texts."""
    path, options = "/v1/models/labels:predict", {"signature_name": "pairs"}
    content = {"b64": base64.b64encode(b"a dull film").decode()}
    texts = [{"text": "a fine film", "pair": "a dull film"}]
    plain = served.post(path, {**options, "instances": texts})
    assert plain.headers["X-Truncated-Texts"] == "0"
    response = served.post(path, {**options, "instances": [{**texts[0], "pair": content}]})
    assert response.status_code == 200
    assert response.json() == plain.json()
    assert "X-Truncated-Texts" not in response.headers


def test_versions_and_labels_in_the_path(served: Running) -> None:
    body = {"instances": ["a"]}
    plain = served.ask("/v1/models/labels:predict", body)
    assert served.ask("/v1/models/labels/versions/1:predict", body) == plain
    for path, word in (("versions/2", "version 2"), ("labels/stable", "'stable'")):
        response = served.post(f"/v1/models/labels/{path}:predict", body)
        assert response.status_code == 404
        assert word in response.json()["error"]


def test_the_version_and_truncated_texts_are_in_headers(served: Running) -> None:
    response = served.post("/v1/models/labels:predict", {"instances": ["a", "a " * 100]})
    assert response.headers["X-Model-Version"] == "1"
    assert response.headers["X-Truncated-Texts"] == "1"


def test_classify_and_regress(served: Running) -> None:
    examples = [{"text": text} for text in TEXTS]
    result = served.ask("/v1/models/labels:classify", {"examples": examples})["result"]
    best = predictor("labels").predict_labels(TEXTS)
    assert [row[0][0] for row in result] == [label.label for label in best]
    numbers = served.ask("/v1/models/numbers:regress", {"examples": examples})["result"]
    np.testing.assert_allclose(numbers, predictor("numbers").predict_scores(TEXTS)[:, 0], atol=1e-5)
    long = {"examples": [{"text": "dull " * 500}, {"text": "a"}]}
    assert served.post("/v1/models/labels:classify", long).headers["X-Truncated-Texts"] == "1"
    shared = served.ask("/v1/models/labels:classify", {"context": {"text": "a"}, "examples": [{}]})
    alone = served.ask("/v1/models/labels:classify", {"examples": [{"text": "a"}]})
    assert shared == alone
    for path in ("labels:regress", "numbers:classify", "tags:classify"):
        response = served.post(f"/v1/models/{path}", {"examples": examples})
        assert response.status_code == 400
        assert "Use predict" in response.json()["error"]
    ids = {"token_ids": [2, 3], "segment_ids": [0, 0], "padding_mask": [1, 1]}
    for path in ("labels:classify", "numbers:regress"):
        body = {"signature_name": "ids", "examples": [ids]}
        response = served.post(f"/v1/models/{path}", body)
        assert response.status_code == 400
        assert "Use predict" in response.json()["error"]


def test_status_and_metadata(served: Running) -> None:
    status = served.get("/v1/models/labels")["model_version_status"]
    assert status == [
        {
            "version": "1",
            "state": "AVAILABLE",
            "status": {"error_code": "OK", "error_message": ""},
        }
    ]
    assert served.get("/v1/models/labels/versions/1")["model_version_status"] == status
    metadata = served.get("/v1/models/labels/metadata")
    assert metadata["model_spec"] == {"name": "labels", "signature_name": "", "version": "1"}
    signatures = metadata["metadata"]["signature_def"]["signature_def"]
    assert list(signatures) == ["serving_default", "pairs", "ids"]
    text = signatures["serving_default"]["inputs"]["text"]
    assert text["dtype"] == "DT_STRING"
    assert text["tensor_shape"]["dim"] == [{"size": "-1", "name": ""}]
    assert served.client.get("/v1/models/labels/versions/9").status_code == 404
    assert served.client.get("/v1/models/labels/labels/stable").status_code == 404
    assert served.client.get("/v1/models/nobody").status_code == 404


WRONG: list[tuple[Any, str]] = [
    ({}, "instances"),
    ({"instances": ["a"], "inputs": ["a"]}, "not both"),
    ({"instances": []}, "at least one"),
    ({"instances": "a"}, "list"),
    ({"instances": [None]}, "instances[0].text must be a text"),
    ({"instances": ["a", 7]}, "instances[1].text must be a text"),
    ({"instances": [["a", "b"]]}, "instances[0].text must be a text"),
    ({"instances": [{"txt": "a"}]}, "no 'text'"),
    ({"instances": [{"text": "a", "more": "b"}]}, "unknown input 'more'"),
    ({"instances": ["a"], "signature_name": "nobody"}, "no signature"),
    ({"instances": ["a"], "signature_name": 3}, "no signature"),
    ({"instances": [{"b64": "###"}]}, "base64"),
    ({"inputs": {"text": "a"}}, "inputs.text must be a list"),
    ({"inputs": {"text": []}}, "inputs.text must be a list"),
    ({"inputs": {}}, "no 'text'"),
    ({"inputs": {"text": ["a"], "pair": ["b", "c"]}, "signature_name": "pairs"}, "equally many"),
    ({"inputs": ["a"], "signature_name": "pairs"}, "text, pair"),
    ({"inputs": {"token_ids": [[1, 2], [3]]}, "signature_name": "ids"}, "has no 'padding_mask'"),
]


@pytest.mark.parametrize(("body", "words"), WRONG, ids=[str(words) for _, words in WRONG])
def test_a_wrong_body_is_told(served: Running, body: Any, words: str) -> None:
    response = served.post("/v1/models/labels:predict", body)
    assert response.status_code == 400
    assert words in response.json()["error"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([[1, 2], [3]], "equal lengths"),
        ([["a"]], "numbers of type int32"),
        ([[1.5]], "numbers of type int32"),
        ([1, 2], "shape [any, any]"),
        ([[2**40]], "beyond int32"),
    ],
)
def test_wrong_numbers_are_told(served: Running, values: Any, words: str) -> None:
    good = [[1, 2]]
    inputs = {"token_ids": values, "segment_ids": good, "padding_mask": good}
    body = {"signature_name": "ids", "inputs": inputs}
    response = served.post("/v1/models/labels:predict", body)
    assert response.status_code == 400
    assert words in response.json()["error"]


def test_unequal_numbers_of_rows_of_ids_are_told(served: Running) -> None:
    inputs = {"token_ids": [[2, 3]] * 70, "segment_ids": [[0, 0]], "padding_mask": [[1, 1]] * 70}
    body = {"signature_name": "ids", "inputs": inputs}
    response = served.post("/v1/models/labels:predict", body)
    assert response.status_code == 400
    assert "equally many rows" in response.json()["error"]


def test_unequal_numbers_of_options_are_told(served: Running) -> None:
    rows = [{"prompt": "a", "options": ["a", "b"]}, {"prompt": "a", "options": ["a", "b", "c"]}]
    response = served.post("/v1/models/choices:predict", {"instances": rows})
    assert response.status_code == 400
    assert "equally many values" in response.json()["error"]


def test_an_unknown_verb_and_a_wrong_method_are_told(served: Running) -> None:
    response = served.post("/v1/models/labels:guess", {})
    assert response.status_code == 400
    assert "predict, classify or regress" in response.json()["error"]
    assert served.client.get("/v1/models/labels:predict").status_code == 405
    assert "error" in served.client.put("/v1/models/labels").json()
