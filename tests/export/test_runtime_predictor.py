"""`RuntimePredictor`: the answers of `Predictor`, computed by ONNX Runtime."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pytest

from bert_keras import export
from bert_keras.errors import ArtifactError
from bert_keras.export.runtime_predictor import RuntimePredictor
from bert_keras.serving.predictor_signatures import predictor_signatures
from bert_keras.serving.signatures import IDS
from tests.serving.running import MASKED, TASKS, columns_for, predictor, running

if keras.backend.backend() == "jax":
    pytest.skip("exports are written on another backend than JAX", allow_module_level=True)
pytest.importorskip("onnxruntime")
QUICK = ("labels", "crf", "answers", "vectors")


Write = Callable[[str], Path]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Write:
    """Return a function that exports a task once, and returns its folder."""

    @functools.cache
    def write(name: str) -> Path:
        model = predictor(name)
        path = tmp_path_factory.mktemp("exported") / name / "1"
        export.runtime_model(model.task, model.tokenizer, path)
        return path

    return write


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in TASKS],
)
def test_answers_are_those_of_the_model(name: str, exported: Write) -> None:
    expected, found = predictor(name), RuntimePredictor(exported(name))
    mine = predictor_signatures(found)
    for key, signature in predictor_signatures(expected).items():
        if key == IDS:
            continue
        columns = columns_for(signature.inputs)
        if expected.task.fills_masks and list(columns) == ["text"]:
            columns["text"] = MASKED
        outputs = mine[key].run(columns)
        for output, values in signature.run(columns).items():
            if values.dtype.kind == "f":
                np.testing.assert_allclose(outputs[output], values, atol=1e-4)
            else:
                np.testing.assert_array_equal(outputs[output], values)


def test_it_is_served(exported: Write) -> None:
    with running({"vectors": exported("vectors").parent}) as server:
        (described,) = server.get("/api/models")["models"]
        assert (described["kind"], described["format"]) == ("runtime", "onnx")
        assert not described["can"]["attention"]
        assert "onnx" in described["why_not"]["attention"]
        (row,) = server.ask("/embed", {"inputs": "a fine film"})
        vector = predictor("vectors").encode("a fine film")
        np.testing.assert_allclose(row, vector, atol=1e-4)


def test_exports_of_earlier_versions_are_told(exported: Write, tmp_path: Path) -> None:
    folder = shutil.copytree(exported("labels"), tmp_path / "1")
    path = folder / "export.json"
    values = json.loads(path.read_text())
    del values["task_name"], values["task_options"]
    path.write_text(json.dumps(values))
    with pytest.raises(ArtifactError, match="earlier version"):
        RuntimePredictor(folder)


def test_an_export_is_no_checkpoint(exported: Write, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="exported from"):
        RuntimePredictor(exported("labels")).save_to_preset(tmp_path / "x")
