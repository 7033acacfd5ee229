"""Trust in SavedModels: refusals list the operations on files, and one function loads them all."""

from __future__ import annotations

import ast
import logging
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest

from bert_keras import BertEncoder
from bert_keras import saved_model_loading as loading
from bert_keras.errors import ArtifactError, UsageError
from tests.contracts import TINY

if keras.backend.backend() != "tensorflow":
    pytest.skip("SavedModels are loaded on the TensorFlow backend", allow_module_level=True)
tf = pytest.importorskip("tensorflow")
from bert_keras.export.graph.signatures import save_program  # noqa: E402

ROOT = Path(__file__).parents[1]
NONE = "None of its operations writes files or runs other code."


def _hostile(folder: Path, canary: Path) -> Path:
    """Write a SavedModel that writes a file while TensorFlow loads it, and one when it is called.

    It has a variable, so it also has the operations that save and restore variables.
    """

    class Resource(tf.saved_model.experimental.TrackableResource):
        def _create_resource(self) -> Any:
            return tf.raw_ops.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64)

        def _initialize(self) -> None:
            tf.io.write_file(str(canary), "loaded")

    class Hostile(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.number, self.resource = tf.Variable(1.0), Resource()

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def __call__(self, text: Any) -> Any:
            tf.print("called", output_stream=f"file://{canary}.log")
            hosts = tf.io.read_file("/etc/hostname")
            return {"text": text, "number": self.number, "hosts": hosts}

    tf.saved_model.save(Hostile(), str(folder))
    return folder


@pytest.fixture(scope="module")
def canary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("canary") / "written"


@pytest.fixture(scope="module")
def hostile(canary: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _hostile(tmp_path_factory.mktemp("hostile") / "1", canary)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a SavedModel of this process, with a variable and a vocabulary, as exports have."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "vocab.txt").write_text("a\nb\n")

    class Lookup(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = tf.Variable(tf.constant(2, tf.int64))
            file = tf.lookup.TextFileInitializer(
                str(folder / "vocab.txt"),
                tf.string,
                tf.lookup.TextFileIndex.WHOLE_LINE,
                tf.int64,
                tf.lookup.TextFileIndex.LINE_NUMBER,
            )
            self.table = tf.lookup.StaticHashTable(file, -1)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
        def __call__(self, text: Any) -> Any:
            return {"ids": self.table.lookup(text) * self.scale}

    program: Any = Lookup()
    (folder / "1").mkdir()
    save_program(program, folder / "1", {"serving_default": program.__call__})
    return folder / "1"


def test_a_program_of_another_process_is_refused_with_its_operations(
    hostile: Path, canary: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(UsageError) as refusal:
        loading.load(hostile)
    message = str(refusal.value)
    assert message.startswith(f"{hostile}: a SavedModel is a program")
    assert re.search(r"operations write files: PrintV2 in \S+, WriteFile in \S+\.", message)
    assert re.search(r"operations read files: ReadFile in \S+\.", message)
    assert "trust=True, or --trust to a command" in message
    assert "SaveV2" not in message  # that of the saver
    assert not canary.exists()
    with caplog.at_level(logging.WARNING, "bert_keras"):
        loading.load(hostile, trust=True)
    assert "WriteFile" in caplog.text  # told before the program runs
    assert canary.read_text() == "loaded"


def test_an_export_of_this_process_needs_no_trust(own: Path, tmp_path: Path) -> None:
    """A program is known by its bytes: a copy is loaded, and a changed copy is refused."""
    copy = shutil.copytree(own, tmp_path / "copy")
    assert loading.load(copy)(tf.constant(["b"]))["ids"].numpy().tolist() == [2]
    assert loading.file_operations(copy) == {}
    with (copy / loading.PROGRAM).open("ab") as file:
        file.write(b"\x08\x01")  # a field with the value that it has already
    with pytest.raises(UsageError, match=re.escape(NONE)):
        loading.load(copy)
    assert callable(loading.load(copy, trust=True))
    assert not loading.is_own(copy)
    assert loading.was_loaded(copy)


@pytest.mark.slow
def test_keras_own_export_of_this_process_needs_no_trust(tmp_path: Path) -> None:
    encoder = BertEncoder(TINY)
    encoder.export(tmp_path / "1", verbose=False)
    assert loading.is_own(tmp_path / "1")
    loading.load(tmp_path / "1")


def test_a_folder_without_a_program_is_no_ones(tmp_path: Path) -> None:
    loading.remember(tmp_path)
    assert not loading.is_own(tmp_path)
    (tmp_path / loading.PROGRAM).write_bytes(b"\xff\xff")
    with pytest.raises(ArtifactError, match="damaged"):
        loading.load(tmp_path)


def _functions(meta: Any, start: str) -> list[Any]:
    return [f for f in meta.graph_def.library.function if f.signature.name.startswith(start)]


def _saves_when_called(meta: Any) -> None:
    """Save the weights in a call, with a function that has the name of the saver's."""
    (saver,) = _functions(meta, "__inference__traced_save")
    node = _functions(meta, "__inference_signature")[0].node_def.add(name="x", op="PartitionedCall")
    node.attr["f"].func.name = saver.signature.name


def _saves_when_restored(meta: Any) -> None:
    _functions(meta, "__inference__traced_restore")[0].node_def.add(name="x", op="SaveV2")


def _writes_when_saved(meta: Any) -> None:
    _functions(meta, "__inference__traced_save")[0].node_def.add(name="x", op="WriteFile")


def _writes_in_the_graph(meta: Any) -> None:
    meta.graph_def.node.add(name="x", op="SaveV2")


def _saves_for_an_output(meta: Any) -> None:
    """Name the node that saves as an output of a signature, as TensorFlow 1 would run it."""
    (signature,) = [s for name, s in meta.signature_def.items() if name == "serving_default"]
    next(iter(signature.outputs.values())).name = meta.saver_def.save_tensor_name


@pytest.mark.parametrize(
    ("change", "operation"),
    [
        (_saves_when_called, "SaveV2"),
        (_saves_when_restored, "SaveV2"),
        (_writes_when_saved, "WriteFile"),
        (_writes_in_the_graph, "SaveV2"),
        (_saves_for_an_output, "MergeV2Checkpoints"),
    ],
)
def test_only_the_savers_own_operations_are_left_out(
    change: Callable[[Any], None], operation: str, own: Path, tmp_path: Path
) -> None:
    program = loading.read_program(own)
    change(program.meta_graphs[0])
    (tmp_path / loading.PROGRAM).write_bytes(program.SerializeToString())
    found = loading.file_operations(tmp_path)["write files"]
    assert [name for name in found if name.startswith(f"{operation} in ")]
    assert "write files" in loading.described_operations(tmp_path)


def test_a_long_list_is_cut(own: Path, tmp_path: Path) -> None:
    program = loading.read_program(own)
    names = (
        "PyFunc",
        "EagerPyFunc",
        "PyFuncStateless",
        "RpcCall",
        "RpcClient",
        "RpcServer",
        "RemoteCall",
    )
    for name in names:
        program.meta_graphs[0].graph_def.node.add(name=name, op=name)
    (tmp_path / loading.PROGRAM).write_bytes(program.SerializeToString())
    text = loading.described_operations(tmp_path)
    assert text.startswith("Its operations run other code or open connections: EagerPyFunc in the")
    assert text.endswith(" and 2 more.")


# Operations with a path, a file or an address that touch none: they only make strings, or read
# what another operation opened.
HARMLESS = re.compile(
    r"ShardedFile(name|spec)|.*TPU.*|.*Dataset(V\d)?|DecodeCSV|CudnnRNN.*|CTC.*|Reader.*|Xla.*"
    r"|.*Regex.*|SentenceFragments|TFText>.*|Wordpiece.*|BoostedTrees.*|Debug.*|Risc.*|Collective.*"
)


def test_every_operation_of_tensorflow_on_files_is_known() -> None:
    """An operation is on files if an input or attribute of it is named so."""
    from tensorflow.core.framework import op_def_pb2
    from tensorflow.python.client import pywrap_tf_session

    content = pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList())
    operations = op_def_pb2.OpList.FromString(content).op
    assert len(operations) > 1000
    on_files = re.compile(
        r"(^|_)(file|filename|filenames|path|dir|logdir|directory|data_source)(_|$)"
    )
    missing = []
    for operation in operations:
        strings = [a.name for a in operation.input_arg if a.type == tf.string.as_datatype_enum]
        strings += [a.name for a in operation.attr if a.type in ("string", "list(string)")]
        is_on_files = any(on_files.search(name) for name in strings)
        is_known = loading.purpose_of(operation.name) or HARMLESS.fullmatch(operation.name)
        if is_on_files and not is_known:
            missing.append(operation.name)
    assert missing == []
    registered = {operation.name for operation in operations}
    for name in ("WriteFile", "SaveDatasetV2", "ExperimentalCSVDataset", "TFRecordDatasetV2"):
        assert name in registered
        assert loading.purpose_of(name)
    assert loading.purpose_of("MatMul") == ""


def test_one_function_loads_saved_models() -> None:
    """Examples that show what a program without this package does load their own export."""
    allowed = ("bert_keras/saved_model_loading.py", "examples/serve_saved_model.py")
    found = []
    for folder in ("bert_keras", "training", "benchmarks", "examples"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if "load(" in text or "TFSM" in text else ():
                call = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
                if re.search(r"saved_model\.load$|hub\.load$|TFSMLayer$", call):
                    found.append(path.relative_to(ROOT).as_posix())
    assert set(found) == set(allowed)
