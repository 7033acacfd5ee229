"""The check of SavedModels: every export passes, and programs that touch files do not."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import keras
import pytest

from bert_keras import BertEncoder, Predictor, SequenceClassifier, Tokenizer, export
from bert_keras.errors import ArtifactError, UsageError
from bert_keras.saved_model_loading import file_operations, read_program
from bert_keras.serving.saved_model_check import foreign_operations, require_own_program
from tests.contracts import FAMILIES, as_trained
from tests.serving.running import CONFIG, TASKS, VOCABULARY, predictor

if keras.backend.backend() != "tensorflow":
    pytest.skip("SavedModels are tested on the TensorFlow backend", allow_module_level=True)
tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")


def write(model: Predictor, folder: Path, **options: Any) -> Path:
    questions = {"max_question": 20} if model.task.task_name == "question_answering" else {}
    path = folder / "1"
    export.saved_model(model.task, model.tokenizer, path, options=questions, **options)
    return path


# `test_signatures.py` loads an export of every task without trust.
@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_every_portable_export_is_our_own(name: str, tmp_path: Path) -> None:
    folder = write(predictor(name), tmp_path, portable=True)
    require_own_program(folder)
    assert file_operations(folder) == {}


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_the_export_of_every_family_is_our_own(family: str, tmp_path: Path) -> None:
    sizes = {"vocab_size": CONFIG.vocab_size, "max_positions": CONFIG.max_positions}
    encoder = as_trained(BertEncoder(FAMILIES[family].replace(**sizes)))
    require_own_program(write(Predictor(encoder, Tokenizer(VOCABULARY)), tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["elu", "selu", "softsign", "mish", "hard_silu", "soft_shrink"])
def test_activations_are_our_own(name: str, tmp_path: Path) -> None:
    encoder = BertEncoder(CONFIG)
    task = SequenceClassifier(encoder, 1, problem="regression", activation=name)
    require_own_program(write(Predictor(as_trained(task), Tokenizer(VOCABULARY)), tmp_path))


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(predictor("vectors"), tmp_path_factory.mktemp("own"))


def changed(own: Path, folder: Path, change: Any) -> Path:
    """Return a copy of an export whose program was changed."""
    copy = folder / "1"
    shutil.copytree(own, copy)
    program = read_program(copy)
    change(program.meta_graphs[0])
    (copy / "saved_model.pb").write_bytes(program.SerializeToString())
    return copy


def _function(meta: Any, start: str) -> Any:
    return next(f for f in meta.graph_def.library.function if f.signature.name.startswith(start))


def _reads_a_file(meta: Any) -> None:
    _function(meta, "__inference_signature").node_def.add(name="x", op="ReadFile")


def _reads_in_the_graph(meta: Any) -> None:
    meta.graph_def.node.add(name="x", op="ReadFile")


def _restores_in_a_signature(meta: Any) -> None:
    _function(meta, "__inference_signature").node_def.add(name="x", op="RestoreV2")


def _calls_the_restore(meta: Any) -> None:
    name = _function(meta, "__inference__traced_restore").signature.name
    node = _function(meta, "__inference_signature").node_def.add(name="x", op="PartitionedCall")
    node.attr["f"].func.name = name


def _reads_another_vocabulary(meta: Any) -> None:
    function = next(
        f
        for f in meta.graph_def.library.function
        if any(node.op == "InitializeTableFromTextFileV2" for node in f.node_def)
    )
    node = next(n for n in function.node_def if n.op == "InitializeTableFromTextFileV2")
    node.input[1] = "secret:output:0"
    function.node_def.add(name="secret", op="Const")


def _reads_another_asset(meta: Any) -> None:
    meta.asset_file_def[0].filename = "../../../secret"


def _is_of_tensorflow_1(meta: Any) -> None:
    meta.object_graph_def.Clear()


CHANGES = (
    *(_reads_a_file, _reads_in_the_graph, _restores_in_a_signature, _calls_the_restore),
    *(_reads_another_vocabulary, _reads_another_asset, _is_of_tensorflow_1),
)


@pytest.mark.parametrize("change", CHANGES)
def test_a_program_that_touches_files_is_refused(own: Path, tmp_path: Path, change: Any) -> None:
    folder = changed(own, tmp_path, change)
    assert foreign_operations(folder)
    with pytest.raises(UsageError, match="--trust"):
        require_own_program(folder)


def test_a_program_without_export_json_is_refused(own: Path, tmp_path: Path) -> None:
    folder = changed(own, tmp_path, lambda _: None)
    require_own_program(folder)
    (folder / "assets.extra" / "export.json").unlink()
    with pytest.raises(UsageError, match="Export the model again"):
        require_own_program(folder)


def test_a_damaged_program_is_told(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"\xff\xff")
    with pytest.raises(ArtifactError, match="damaged"):
        read_program(tmp_path)
