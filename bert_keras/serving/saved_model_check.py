"""A check that a SavedModel has only the operations of exports of this package.

A SavedModel is a program, which TensorFlow runs with the rights of the server. Its operations could
read and write files, or call Python. The check reads saved_model.pb, and runs nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bert_keras.errors import UsageError
from bert_keras.export.runtimes.formats import FILE
from bert_keras.saved_model_loading import described_operations, read_program

EXTRA = "assets.extra"

# Operations of the exports of all tasks and families, with both engines of the tokenizer. None of
# them reads or writes files.
OWN_OPERATIONS = frozenset(
    (
        *("Abs", "AddV2", "All", "Any", "ArgMax", "Assert", "AssignVariableOp", "BatchMatMulV2"),
        *("BiasAdd", "Bitcast", "BitwiseAnd", "BroadcastTo", "Cast", "ConcatV2", "Const"),
        *("Cumsum", "DenseBincount", "Einsum", "Elu", "Equal", "Erf", "Erfc", "Exp"),
        *("ExpandDims", "Expm1", "FastWordpieceTokenizeWithOffsets", "Fill", "FloorDiv"),
        *("FloorMod", "GatherNd", "GatherV2", "Greater", "GreaterEqual", "HashTableV2"),
        *("Identity", "IdentityN", "If", "IsFinite", "LeftShift", "Less", "LessEqual", "Log"),
        *("LogicalAnd", "LogicalNot", "LogicalOr", "LookupTableFindV2", "LowerBound", "MatMul"),
        *("Max", "Maximum", "Mean", "Minimum", "Mul", "Neg", "NoOp", "NotEqual", "Pack", "Pad"),
        *("PadV2", "Placeholder", "Pow", "Prod", "RaggedGather", "RaggedRange"),
        *("RaggedTensorToTensor", "Range", "ReadVariableOp", "RealDiv", "Relu", "Relu6"),
        *("Reshape", "RightShift", "Rsqrt", "SelectV2", "Selu", "Shape", "Sigmoid", "Size"),
        *("Softmax", "Softplus", "Softsign", "Split", "Sqrt", "Square", "SquaredDifference"),
        *("Squeeze", "StatefulPartitionedCall", "StatelessIf", "StatelessRandomGetKeyCounter"),
        *("StatelessRandomUniformFullIntV2", "StatelessWhile", "StopGradient", "StridedSlice"),
        *("Sub", "Sum", "Tanh", "TensorListConcatV2", "TensorListFromTensor"),
        *("TensorListGetItem", "TensorListReserve", "TensorListSetItem", "TensorListStack"),
        *("TensorScatterUpdate", "Tile", "TopKV2", "Transpose", "UnicodeDecode", "UnicodeEncode"),
        *("Unique", "Unpack", "UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentSum"),
        *("UpperBound", "VarHandleOp", "VarIsInitializedOp", "Where", "While", "ZerosLike"),
        *("Select", "StaticRegexFullMatch", "StringJoin", "LeakyRelu", "Round", "Sign"),
        *("Min", "PlaceholderWithDefault", "Rank", "DecodeRaw", "InvertPermutation", "OnesLike"),
        *("PartitionedCall", "ReduceJoin", "ReverseV2", "ScatterNd", "StaticRegexReplace"),
        *("StringLength", "UnsortedSegmentJoin", "AddN", "SegmentMean"),
    )
)
# Operations on files. Exports have them only in the functions with which TensorFlow loads the
# weights and the vocabulary, or saves the weights.
_FILE_OPERATIONS = frozenset(
    (
        *("RestoreV2", "SaveV2", "MergeV2Checkpoints", "ShardedFilename", "DisableCopyOnRead"),
        "InitializeTableFromTextFileV2",
    )
)
# Beginnings of the names of these functions.
_LOADING = ("__inference__traced_restore", "__inference__traced_save", "__inference__initializer")
# Operation -> index of the input that is the path of a file. The path must be an argument of the
# function: TensorFlow then passes a path in the folder that it loads.
_PATHS = {"RestoreV2": 0, "InitializeTableFromTextFileV2": 1}
_STRING = 7  # DT_STRING


def require_own_program(folder: Path) -> None:
    """Check that a SavedModel has only the operations of exports of this package.

    Raises:
        UsageError: if it has other operations, or no `assets.extra/export.json`.
        ArtifactError: if saved_model.pb cannot be read.
    """
    advice = (
        "A SavedModel is a program that could read and write files. If you trust its author, "
        "serve it with --trust."
    )
    if not (folder / EXTRA / FILE).is_file():
        raise UsageError(
            f"{folder}: this SavedModel has no {EXTRA}/{FILE}, so it is no export of this version "
            "of bert_keras, or its copy is not complete yet. Export the model again. "
            f"{described_operations(folder)} {advice}"
        )
    if foreign := sorted(foreign_operations(folder)):
        raise UsageError(
            f"{folder}: the SavedModel has operations that no export of bert_keras has: "
            f"{', '.join(foreign[:5])}. {described_operations(folder)} {advice}"
        )


def foreign_operations(folder: Path) -> set[str]:
    """Return the parts of a SavedModel that no export of this package has, in words.

    A part is the name of an operation, "OPERATION of another file" for a path that the program
    sets itself, "OPERATION of FUNCTION" for a call of a function that reads files, "asset NAME" for
    a file outside the folder of assets, or "graph of TensorFlow 1".

    Raises:
        ArtifactError: if saved_model.pb cannot be read.
    """
    foreign: set[str] = set()
    for meta in read_program(folder).meta_graphs:
        if not meta.object_graph_def.nodes:
            foreign.add("graph of TensorFlow 1")
        foreign |= {
            f"asset {asset.filename!r:.80}"
            for asset in meta.asset_file_def
            if Path(asset.filename).name != asset.filename
        }
        functions = {f.signature.name: f for f in meta.graph_def.library.function}
        loading = {name for name in functions if name.startswith(_LOADING)}
        for name, function in functions.items():
            known = OWN_OPERATIONS | _FILE_OPERATIONS if name in loading else OWN_OPERATIONS
            foreign |= {node.op for node in function.node_def if node.op not in known}
            if name in loading:
                foreign |= set(_other_files(function))
            else:
                foreign |= set(_calls(function.node_def, loading))
        # The graph outside the functions calls the functions that restore and save the weights.
        known = OWN_OPERATIONS | loading
        foreign |= {node.op for node in meta.graph_def.node if node.op not in known}
        foreign |= set(_bound_strings(meta, loading))
    return foreign


def _other_files(function: Any) -> Iterator[str]:
    """Yield the operations of a function that read a file whose path is not an argument of it."""
    arguments = {argument.name for argument in function.signature.input_arg}
    for node in function.node_def:
        if node.op in _PATHS and node.input[_PATHS[node.op]] not in arguments:
            yield f"{node.op} of another file"


def _calls(nodes: Any, functions: set[str]) -> Iterator[str]:
    """Yield "OPERATION of FUNCTION" for each node that calls one of these functions."""
    for node in nodes:
        called = {value.func.name for value in node.attr.values() if value.HasField("func")}
        called |= {f.name for value in node.attr.values() for f in value.list.func}
        if called & functions or node.op in functions:
            yield f"{node.op} of {', '.join(sorted(called & functions)) or node.op}"


def _bound_strings(meta: Any, functions: set[str]) -> Iterator[str]:
    """Yield each of these functions to which TensorFlow passes a string that the program sets."""
    objects = meta.object_graph_def
    types = {node.name: node.attr["dtype"].type for node in meta.graph_def.node}
    for name in functions & set(objects.concrete_functions):
        for index in objects.concrete_functions[name].bound_inputs:
            node = objects.nodes[index]
            is_constant = node.WhichOneof("kind") == "constant"
            if is_constant and types.get(node.constant.operation, _STRING) == _STRING:
                yield f"{name} of another file"
