"""SavedModels: signatures, what export.json says, and SavedModels of other programs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import export
from bert_keras.errors import ArtifactError, UsageError
from bert_keras.serving.signatures import CLASSIFY, DEFAULT, REGRESS
from tests.serving.running import (
    CONTEXTS,
    LABELS,
    LENGTH,
    OTHERS,
    TEXTS,
    predictor,
    running,
    wait_for,
)

if keras.backend.backend() != "tensorflow":
    pytest.skip("SavedModels are tested on the TensorFlow backend", allow_module_level=True)
tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")
from bert_keras.serving.model_source import Options  # noqa: E402
from bert_keras.serving.saved_model import SavedModel  # noqa: E402

Exported = Callable[[str], Path]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """Return a function from a task to the base folder of its SavedModel."""
    folder = tmp_path_factory.mktemp("saved_models")

    @functools.cache
    def write(name: str) -> Path:
        model = predictor(name)
        export.saved_model(model.task, model.tokenizer, folder / name / "1")
        return folder / name

    return write


def test_a_saved_model_knows_its_task(exported: Exported) -> None:
    model = SavedModel(exported("labels") / "1")
    assert (model.task, model.labels, model.max_length) == ("text_classification", LABELS, LENGTH)
    assert model.inputs == ["text"]
    assert model.takes_pairs
    assert next(iter(model.signatures)) == DEFAULT
    assert [name for name, s in model.signatures.items() if s.has_text_rows] == [DEFAULT, "pairs"]
    assert model.count_tokens(["a fine film"]) == [5]
    assert "checkpoint" in model.why_not["attention"]


def test_the_page_and_all_protocols_answer(exported: Exported) -> None:
    assert SavedModel(exported("masks") / "1").mask_token == "[MASK]"
    folders = {name: exported(name) for name in ("labels", "vectors", "masks", "tags")}
    with running(folders) as served:
        model = predictor("labels")
        (row,) = served.ask("/v1/models/labels:predict", {"instances": TEXTS[:1]})["predictions"]
        assert row["label"] == model.predict_labels(TEXTS[0]).label
        found = served.ask("/v1/embeddings", {"model": "vectors", "input": TEXTS})
        vectors = [item["embedding"] for item in found["data"]]
        np.testing.assert_allclose(vectors, predictor("vectors").encode(TEXTS), atol=1e-5)
        assert found["usage"]["total_tokens"] > 0
        ranked = served.ask("/rerank", {"query": TEXTS[0], "texts": OTHERS})
        scores = predictor("vectors").similarity([TEXTS[0]] * 3, OTHERS)
        assert [item["index"] for item in ranked] == np.argsort(-scores).tolist()
        for name, text in (("labels", "a"), ("tags", CONTEXTS[0]), ("masks", "a [MASK]")):
            reply = served.ask(f"/api/models/{name}/answer", {"inputs": {"text": text}})
            assert reply["answer"]
            assert served.ask(f"/api/models/{name}/tokens", {"text": text})["tokens"]
            refused = served.post(f"/api/models/{name}/attention", {"text": text})
            assert refused.status_code == 404
            assert "checkpoint" in refused.json()["error"]
        described = served.get("/api/models")["models"]
        assert {model["kind"] for model in described} == {"saved_model"}
        ids = served.post("/v1/embeddings", {"model": "vectors", "input": [5]})
        assert ids.status_code == 400


class Foreign(tf.Module):
    """A program that is not ours: it reads a file, and classifies tf.Example messages."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def read(self, path: Any) -> Any:
        return {"content": tf.map_fn(tf.io.read_file, path)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def classify(self, inputs: Any) -> Any:
        parsed = tf.io.parse_example(inputs, {"x": tf.io.FixedLenFeature([1], tf.float32)})
        scores = tf.concat([parsed["x"], 1 - parsed["x"]], axis=1)
        classes = tf.tile([["yes", "no"]], [tf.shape(scores)[0], 1])
        return {"classes": classes, "scores": scores}

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.float32, name="numbers"),
            tf.TensorSpec([None], tf.int32, name="places"),
        ]
    )
    def pick(self, numbers: Any, places: Any) -> Any:
        return {"mean": tf.reduce_mean(numbers), "picked": tf.gather(numbers, places)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def scores(self, inputs: Any) -> Any:
        return {"scores": tf.zeros([tf.shape(inputs)[0], 2])}


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    module = Foreign()
    folder = tmp_path / "foreign" / "1"
    names = ("classify", "pick", "scores")
    signatures = {DEFAULT: module.read, **{name: getattr(module, name) for name in names}}
    signatures["numbers"] = module.scores
    tf.saved_model.save(module, str(folder), signatures)
    return folder


def set_methods(folder: Path) -> None:
    """Give the signatures the methods of TensorFlow 1's classifiers."""
    from bert_keras.saved_model_loading import read_program

    program = read_program(folder)
    signatures = program.meta_graphs[0].signature_def
    signatures["classify"].method_name = signatures["scores"].method_name = CLASSIFY
    signatures[DEFAULT].method_name = signatures["numbers"].method_name = REGRESS
    (folder / "saved_model.pb").write_bytes(program.SerializeToString())


def test_a_program_of_others_needs_trust(foreign: Path) -> None:
    with pytest.raises(UsageError, match="--trust"):
        SavedModel(foreign)
    set_methods(foreign)
    options = Options(trust=True)
    with running({"foreign": foreign.parent}, options=options) as served:
        body = {"signature_name": "classify", "examples": [{"x": 0.25}, {"x": [1.0]}]}
        result = served.ask("/v1/models/foreign:classify", body)["result"]
        assert result == [[["yes", 0.25], ["no", 0.75]], [["yes", 1.0], ["no", 0.0]]]
        assert served.post("/v1/models/foreign:regress", body).status_code == 400
        numbers = {"signature_name": "numbers", "examples": [{"x": 0.25}]}
        refused = served.post("/v1/models/foreign:regress", numbers)
        assert refused.status_code == 400
        assert "no output 'outputs'" in refused.json()["error"]
        without = served.ask("/v1/models/foreign:classify", {**body, "signature_name": "scores"})
        assert without["result"] == [[["", 0.0], ["", 0.0]]] * 2
        for value in (2**63, {"a": 1}, None, [1, "b"], []):
            wrong = {**body, "examples": [{"x": value}]}
            assert served.post("/v1/models/foreign:classify", wrong).status_code == 400, value
        (described,) = served.get("/api/models")["models"]
        assert described["task"] == "other"
        assert not any(described["can"].values())
        answer = served.post("/api/models/foreign/answer", {"inputs": {"path": "a"}})
        assert answer.status_code == 404
        metadata = served.get("/v1/models/foreign/metadata")["metadata"]
        signatures = metadata["signature_def"]["signature_def"]
        assert signatures["classify"]["method_name"] == CLASSIFY


def test_inputs_and_outputs_that_are_no_rows(foreign: Path) -> None:
    with running({"foreign": foreign.parent}, options=Options(trust=True)) as served:
        path = "/v1/models/foreign:predict"
        body = {"signature_name": "pick", "inputs": {"numbers": [1.0, 2.0, 6.0], "places": [2]}}
        assert served.ask(path, body)["outputs"] == {"mean": 3.0, "picked": [6.0]}
        rows = {"signature_name": "pick", "instances": [{"numbers": 1.0, "places": 0}]}
        refused = served.post(path, rows)
        assert refused.status_code == 400
        assert '"inputs"' in refused.json()["error"]
        body["inputs"]["places"] = [7]
        refused = served.post(path, body)
        assert refused.status_code == 400
        assert ".py" not in refused.text


def test_ids_of_a_saved_model(exported: Exported) -> None:
    with running({"labels": exported("labels")}) as served:
        names = ("token_ids", "segment_ids", "padding_mask")
        inputs = {name: [[int(name != "segment_ids")] * 3] * 70 for name in names}
        inputs["token_ids"] = [[2, 5 + i % 7, 3] for i in range(70)]
        body = {"signature_name": "ids", "inputs": inputs}
        found = served.ask("/v1/models/labels:predict", body)["outputs"]
        last = {name: values[69:] for name, values in inputs.items()}
        (row,) = served.ask("/v1/models/labels:predict", {**body, "inputs": last})["outputs"]
        assert found[69] == pytest.approx(row, abs=1e-5)
        inputs["token_ids"] = [[10**6] * 3] * 70
        refused = served.post("/v1/models/labels:predict", body)
        assert refused.status_code == 400
        assert "`token_ids` must be numbers from 0 to" in refused.text
        assert "1000000" in refused.text
        assert ".py" not in refused.text


def test_trust_is_checked_at_every_swap(exported: Exported, foreign: Path) -> None:
    import shutil

    base = foreign.parent.parent / "mine"
    shutil.copytree(exported("labels") / "1", base / "1")
    with running({"mine": base}, poll_seconds=0.02) as served:
        shutil.copytree(foreign, base / ".tmp-2")
        (base / ".tmp-2").rename(base / "2")

        def states() -> list[str]:
            found = served.get("/v1/models/mine")["model_version_status"]
            return [version["state"] for version in found]

        wait_for(lambda: states() == ["END", "AVAILABLE"])
        assert served.post("/v1/models/mine:predict", {"instances": ["a"]}).status_code == 200


@pytest.mark.parametrize("damage", ["saved_model.pb", "variables/variables.index"])
def test_a_damaged_file_is_told(exported: Exported, tmp_path: Path, damage: str) -> None:
    import shutil

    folder = tmp_path / "1"
    shutil.copytree(exported("labels") / "1", folder)
    (folder / damage).write_bytes(b"damaged")
    with pytest.raises(ArtifactError, match="Export the model again"):
        SavedModel(folder)
