"""Loading of SavedModels: who must trust them, and which files their operations touch.

A SavedModel is a program. TensorFlow runs it with the rights of the process, also while it loads.
So every SavedModel is loaded by `load` of this module. It asks for `trust=True`, unless this
process wrote the program. `file_operations` reads saved_model.pb, and runs nothing of it.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import logging
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bert_keras.errors import ArtifactError, UsageError

logger = logging.getLogger("bert_keras")

PROGRAM = "saved_model.pb"
_TEXT, _UNREGISTERED = "tensorflow_text", "Op type not registered"
_MOST = 5  # operations that a message lists

# === Trust ===

# SHA-256 of the programs that this process wrote, and of those that it loaded with trust.
_written: set[str] = set()
_loaded: set[str] = set()


def remember(folder: str | Path) -> None:
    """Remember the SavedModel in a folder, if there is one, as written by this process.

    A program is known by the digest of its saved_model.pb. The folder may move afterwards.
    """
    if digest := _digest(Path(folder, PROGRAM)):
        _written.add(digest)


def is_own(folder: str | Path) -> bool:
    """Return whether this process wrote the program of a SavedModel."""
    return _digest(Path(folder, PROGRAM)) in _written


def was_loaded(folder: str | Path) -> bool:
    """Return whether this process has loaded the program of a SavedModel already."""
    return _digest(Path(folder, PROGRAM)) in _loaded


def _digest(program: Path) -> str:
    """Return the SHA-256 of a file; "" if it cannot be read."""
    try:
        with program.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def require_trust(folder: str | Path, *, trust: bool) -> None:
    """Check that a SavedModel may run.

    Args:
        folder: folder with saved_model.pb.
        trust: True if the user trusts the author of the SavedModel.

    Raises:
        UsageError: if `trust` is False and this process did not write the program. The message
            lists its operations on files.
        ArtifactError: if saved_model.pb cannot be read.
    """
    if not trust and not is_own(folder):
        raise UsageError(
            f"{folder}: a SavedModel is a program that TensorFlow runs with your rights, and this "
            f"process did not write it. {described_operations(folder)} If you trust its author, "
            "pass trust=True, or --trust to a command."
        )


def load(folder: str | Path, *, trust: bool = False) -> Any:
    """Load a SavedModel. tensorflow-text is imported if its operations need it.

    Operations that write files or run other code are logged as a warning before the program runs.

    Args:
        folder: folder with saved_model.pb.
        trust: True if the user trusts the author of the SavedModel.

    Raises:
        UsageError: if `trust` is False and this process did not write the program.
        ArtifactError: if saved_model.pb cannot be read.
        ImportError: if TensorFlow is not installed, or a tensorflow-text that the program needs.
    """
    if importlib.util.find_spec("tensorflow") is None:
        raise ImportError(
            'tensorflow is not installed. Install with: pip install "bert-keras[tensorflow]"'
        )
    require_trust(folder, trust=trust)
    if not is_own(folder) and file_operations(folder).keys() & {_WRITE, _RUN}:
        logger.warning("%s: %s", folder, described_operations(folder))
    tf = importlib.import_module("tensorflow")
    try:
        model = tf.saved_model.load(str(folder))
    except Exception as error:
        if _UNREGISTERED not in str(error) or _TEXT in sys.modules:
            raise
        if importlib.util.find_spec(_TEXT) is None:
            operation = str(error).partition(_UNREGISTERED)[2].split()[0]
            raise ImportError(
                f"{folder}: the SavedModel has the operation {operation} of tensorflow-text, which "
                'is not installed. Install with: pip install "bert-keras[tensorflow]"'
            ) from error
        importlib.import_module(_TEXT)  # registers its operations
        model = tf.saved_model.load(str(folder))
    _loaded.add(_digest(Path(folder, PROGRAM)))
    return model


# === Operations ===

_WRITE, _READ, _RUN = "write files", "read files", "run other code or open connections"
_SUMMARIES = ("CreateSummaryFileWriter", "CreateSummaryDbWriter", "DumpTensor")
_DEBUGGERS = ("DebugIdentity", "DebugNanCount", "DebugNumericSummary")
# Operations of the functions with which a SavedModel saves and restores its variables.
_SAVE, _RESTORE = ("Save", "SaveSlices", "SaveV2", "MergeV2Checkpoints"), ("Restore", "RestoreV2")
_FROM_FILE = ("InitializeTableFromTextFile", "InitializeTableFromTextFileV2")
# Purpose -> names of operations of TensorFlow, without "Experimental" and the version at their end.
_OPERATIONS = {
    _WRITE: (
        *("CacheDataset", "CalibrationStatisticsSaver", "DatasetToTFRecord", "DistributedSave"),
        *("MergeV2Checkpoints", "Save", "SaveDataset", "SaveSlices", "SnapshotDataset"),
        *("WriteFile", *_SUMMARIES, *_DEBUGGERS),
    ),
    _READ: (
        *("CSVDataset", "DTensorRestore", "FixedLengthRecordDataset", "FixedLengthRecordReader"),
        *("FixedUnigramCandidateSampler", "GenerateVocabRemapping", "ImmutableConst"),
        *("InitializeTableFromTextFile", "LMDBDataset", "LMDBReader", "ListSnapshotChunksDataset"),
        *("LoadAndRemapMatrix", "LoadDataset", "MatchingFiles", "MatchingFilesDataset"),
        *("ReadFile", "RecordInput", "Restore", "RestoreSlice", "Skipgram", "SnapshotChunkDataset"),
        *("SnapshotDatasetReader", "SqlDataset", "TFRecordDataset", "TFRecordReader"),
        *("TextLineDataset", "TextLineReader", "WholeFileReader"),
    ),
    _RUN: (
        *("DataServiceDataset", "EagerPyFunc", "FileSystemSetConfiguration", "MlirPassthroughOp"),
        *("PyFunc", "PyFuncStateless", "RegisterDataset", "RemoteCall", "RpcCall", "RpcClient"),
        *("RpcServer", "RpcServerRegister", "RpcServerStart", "XlaCustomCall"),
    ),
}
_PURPOSES = {name: purpose for purpose, names in _OPERATIONS.items() for name in names}


def purpose_of(operation: str) -> str:
    """Return what an operation does outside the graph, such as "write files"; "" for nothing."""
    name = operation.removeprefix("Experimental")
    return _PURPOSES.get(name) or _PURPOSES.get(name.rstrip("0123456789").removesuffix("V"), "")


def described_operations(folder: str | Path) -> str:
    """Return sentences about the operations of a SavedModel that touch files or run other code."""
    found = file_operations(folder)
    sentences = [
        f"Its operations {purpose}: {', '.join(found[purpose][:_MOST])}"
        + f" and {len(found[purpose]) - _MOST} more" * (len(found[purpose]) > _MOST)
        + "."
        for purpose in _OPERATIONS
        if purpose in found
    ]
    if _WRITE not in found and _RUN not in found:
        sentences.insert(0, "None of its operations writes files or runs other code.")
    return " ".join(sentences)


def file_operations(folder: str | Path) -> dict[str, list[str]]:
    """Return the operations of a SavedModel that touch files or run code outside the graph.

    Two kinds are left out: operations that save and restore the variables, which every SavedModel
    has, and operations that read a vocabulary in the folder of its assets.

    Returns:
        "write files", "read files" or "run other code or open connections" -> "OPERATION in
        FUNCTION", sorted. A purpose without operations is left out.

    Raises:
        ArtifactError: if saved_model.pb cannot be read.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for meta in read_program(Path(folder)).meta_graphs:
        functions = {f.signature.name: f for f in meta.graph_def.library.function}
        saver = _Saver(meta, functions)
        assets = {asset.tensor_info.name.partition(":")[0] for asset in meta.asset_file_def}
        parts = [("", meta.graph_def.node, assets)]
        for name, function in functions.items():
            arguments = {argument.name for argument in function.signature.input_arg}
            parts.append((name, function.node_def, arguments))
        for place, nodes, paths in parts:
            for node in nodes:
                purpose = purpose_of(node.op)
                is_known = saver.is_its_own(place, node) or _reads_an_asset(node, paths)
                if (purpose and not is_known) or _prints_to_file(node):
                    found[purpose or _WRITE].add(f"{node.op} in {place or 'the graph'}")
    return {purpose: sorted(names) for purpose, names in found.items()}


def _reads_an_asset(node: Any, paths: set[str]) -> bool:
    """Return whether a node fills a table from a file whose path is an asset or an argument."""
    return node.op in _FROM_FILE and node.input[1].partition(":")[0] in paths


def _prints_to_file(node: Any) -> bool:
    """Return whether a node prints to a file, and not to the terminal."""
    stream = node.attr["output_stream"].s if "output_stream" in node.attr else b""
    return node.op == "PrintV2" and stream.startswith(b"file:")


class _Saver:
    """The parts of a SavedModel that only save and restore its variables.

    TensorFlow names two nodes of the graph that do this. Their parts are the nodes and functions
    that nothing else uses. The saving part may write files, and the restoring part may read them.

    Args:
        meta: graph of the SavedModel.
        functions: function name -> function.
    """

    def __init__(self, meta: Any, functions: Mapping[str, Any]):
        nodes = {node.name: node for node in meta.graph_def.node}
        calls = {name: set(_called(f.node_def, functions)) for name, f in functions.items()}
        objects = set(meta.object_graph_def.concrete_functions) & functions.keys()
        outputs = {
            tensor.name.partition(":")[0]
            for signature in meta.signature_def.values()
            for tensor in signature.outputs.values()
        }
        roots = {_SAVE: meta.saver_def.save_tensor_name, _RESTORE: meta.saver_def.restore_op_name}
        self._own: dict[str, set[str]] = {}  # operation -> functions and nodes of the saver
        for operations, root in roots.items():
            part = _ancestors([root.partition(":")[0]], nodes)
            others = _ancestors([*(nodes.keys() - part), *outputs], nodes)
            part -= others
            used = _reached(
                {*_called([nodes[name] for name in others], functions), *objects}, calls
            )
            places = _reached(set(_called([nodes[name] for name in part], functions)), calls)
            self._own |= dict.fromkeys(operations, (places - used) | part)

    def is_its_own(self, function: str, node: Any) -> bool:
        """Return whether a node of a function, or of the graph for "", belongs to the saver."""
        return (function or node.name) in self._own.get(node.op, ())


def _ancestors(names: Iterable[str], nodes: Mapping[str, Any]) -> set[str]:
    """Return the names of nodes, and of all nodes that they need."""
    found: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name in nodes and name not in found:
            found.add(name)
            left.extend(key.lstrip("^").partition(":")[0] for key in nodes[name].input)
    return found


def _called(nodes: Iterable[Any], functions: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the functions that nodes call."""
    for node in nodes:
        names = {node.op}
        for value in node.attr.values():
            names |= {value.func.name} if value.HasField("func") else set()
            names |= {function.name for function in value.list.func}
        yield from names & functions.keys()


def _reached(names: set[str], calls: Mapping[str, set[str]]) -> set[str]:
    """Return functions with all functions that they call, directly or not."""
    found: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left.extend(calls[name])
    return found


def read_program(folder: Path) -> Any:
    """Return the protocol buffer in the saved_model.pb of a folder.

    Raises:
        ArtifactError: if the file cannot be read.
    """
    saved_model_pb2 = importlib.import_module("tensorflow.core.protobuf.saved_model_pb2")
    path = folder / PROGRAM
    try:
        return saved_model_pb2.SavedModel.FromString(path.read_bytes())
    except Exception as error:
        raise ArtifactError(f"{path}: is damaged ({error}). Export the model again.") from error
