"""Names of weights files in a folder: plain files, several files, variants, and foreign formats."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from bert_keras import file_io
from bert_keras.checkpoints.manifest import WEIGHTS
from bert_keras.checkpoints.pickled_tensors import PickledTensors
from bert_keras.checkpoints.tensors import ShardedTensors, TensorFile, Tensors
from bert_keras.errors import ArtifactError, UsageError

PICKLE = "pytorch_model.bin"
INDEX, PICKLE_INDEX = (f"{name}.index.json" for name in (WEIGHTS, PICKLE))
FILES = (WEIGHTS, INDEX, PICKLE, PICKLE_INDEX)  # `find` takes the first one that exists
_VARIANT = r"[A-Za-z0-9_-]+"
# Files of a variant, which transformers and diffusers name so. `{}` stands for its name.
_OF_VARIANT = (
    *("model.{}.safetensors", "model.safetensors.index.{}.json", "model.{}.safetensors.index.json"),
    *("pytorch_model.{}.bin", "pytorch_model.bin.index.{}.json", "pytorch_model.{}.bin.index.json"),
)
_PART = re.compile(r"-\d{5}-of-\d{5}")  # in the name of one of several files, which has an index


def converted(option: str) -> str:
    """Return a sentence about an option that `bert-keras convert` has and other commands lack."""
    return f"In a shell: `bert-keras convert FOLDER NEW {option}` writes a copy for every command."


def in_a_shell(option: str) -> str:
    """Return sentences about an option that most commands have, such as "--variant fp16"."""
    name, _, value = option.removeprefix("--").partition(" ")
    key = f"{name.replace('-', '_')}={value or 'true'}"
    return f"A command takes {option} (predict and evaluate: {key}). {converted(option)}"


def patterns(variant: str | None, *, allow_pickle: bool) -> list[str]:
    """Return names and globs of the weights files to download.

    Args:
        variant: name of a variant; None for the plain files, or the only variant there is.
        allow_pickle: whether pickles may be read.

    Raises:
        UsageError: if `variant` is no word.
    """
    if variant is None:
        wanted = ["model*.safetensors", "model*.safetensors.index*.json"]
        return wanted + (["pytorch_model*.bin", "pytorch_model*.bin.index*.json"] * allow_pickle)
    names = [pattern.format(_checked(variant)) for pattern in _OF_VARIANT]
    parts = [
        pattern.format(name, variant)
        for name in ("model", "pytorch_model")
        for pattern in ("{}.{}-*", "{}-*.{}.*")
    ]
    return [name for name in [*names, *parts] if allow_pickle or "pytorch" not in name]


def find(directory: Path, *, allow_pickle: bool = False, variant: str | None = None) -> Path:
    """Return the path of a folder's weights file, or of the index of several files.

    Args:
        directory: the folder.
        allow_pickle: whether a pickle may be taken if there is no safetensors file.
        variant: name of a variant, such as "fp16" for `model.fp16.safetensors`. None for the plain
            file or, in a folder that has only one variant, for this one.

    Raises:
        ArtifactError: if there is no such file, only a pickle that is not allowed, or only other
            variants or foreign formats, which the message names.
        UsageError: if `variant` is no word.
    """
    if variant is not None:
        names = [pattern.format(_checked(variant)) for pattern in _OF_VARIANT]
    else:
        names = list(FILES)
        variants = variants_in(directory)
        if len(variants) == 1 and not any((directory / name).is_file() for name in names):
            names = [pattern.format(variants[0]) for pattern in _OF_VARIANT]
    there = [directory / name for name in names if (directory / name).is_file()]
    readable = [path for path in there if allow_pickle or not _is_pickle(path)]
    if readable:
        return readable[0]
    if there:
        safe = [
            name
            for name in variants_in(directory)
            if any((directory / pattern.format(name)).is_file() for pattern in _OF_VARIANT[:3])
        ]
        others = "".join(f", or pass variant={name!r}" for name in safe)
        raise ArtifactError(
            f"{there[0]}: a pickle, which can run code when it is read. Take a {WEIGHTS} where "
            f"there is one{others}, or read it with PyTorch's `weights_only`: allow_pickle=True. "
            + in_a_shell("--allow-pickle")
        )
    raise ArtifactError(_nothing(directory, variant))


def variants_in(directory: Path) -> list[str]:
    """Return the names of the variants in a folder, such as ["bf16", "fp16"]."""
    names = [path.name for path in directory.iterdir()] if directory.is_dir() else []
    return sorted({variant for name in names for variant in _variants_of(name)})


def variant_of(path: Path) -> str:
    """Return the variant that a file returned by `find` is of; "" for a plain file."""
    return "" if path.name in FILES else next(iter(_variants_of(path.name)), "")


def _variants_of(name: str) -> Iterator[str]:
    """Yield the variant in the name of a weights file, if there is one."""
    for pattern in _OF_VARIANT:
        match = re.fullmatch(re.escape(pattern).replace(r"\{\}", f"({_VARIANT})"), name)
        if match and not _PART.search(name):
            yield match[1]


def open_tensors(path: Path, rename: Callable[[str], str] = str) -> Tensors:
    """Open a weights file that `find` returned; `TensorFile` describes `rename`."""
    if path.suffix == ".json" and _is_pickle(path):
        return ShardedTensors(path, rename, PickledTensors, ".bin")
    if path.suffix == ".json":
        return ShardedTensors(path, rename)
    return PickledTensors(path, rename) if _is_pickle(path) else TensorFile(path, rename)


def open_folder(
    directory: Path,
    rename: Callable[[str], str] = str,
    *,
    allow_pickle: bool = False,
    variant: str | None = None,
) -> Tensors:
    """Find and open the weights of a folder; `find` and `TensorFile` describe the arguments.

    Raises:
        ArtifactError: see `find`; or if a TensorFlow class of transformers wrote the file.
    """
    path = find(directory, allow_pickle=allow_pickle, variant=variant)
    opened = open_tensors(path, rename)
    if any(name.endswith(":0") for name in opened.shapes):  # TensorFlow's names end so
        opened.close()
        raise ArtifactError(f"{path}: {_TENSORFLOW}")
    if variant is None and (only := variant_of(path)):
        note = f"{path}: opened, because {only!r} is the only variant of the weights in the folder."
        opened.notes = (note, *opened.notes)
    return opened


def _is_pickle(path: Path) -> bool:
    """Return whether a weights file is a pickle, or the index of pickles."""
    return path.name.startswith(PICKLE.partition(".")[0])


def _checked(variant: str) -> str:
    """Return the name of a variant.

    Raises:
        UsageError: if it is no word, so that it could name a file in another folder.
    """
    if not re.fullmatch(_VARIANT, variant):
        raise UsageError(
            "variant must be a word of a file name, such as 'fp16' for model.fp16.safetensors. "
            f"Received: {variant!r:.100}"
        )
    return variant


def _nothing(directory: Path, variant: str | None) -> str:
    """Return the message about a folder without the wanted weights."""
    variants = variants_in(directory)
    calls = " or ".join(f"variant={name!r}" for name in variants)
    if variant is not None:
        plain = [name for name in FILES if (directory / name).is_file()]
        there = ", ".join([*plain, *(f"the variant {name!r}" for name in variants)])
        return (
            f"{directory}: no weights of the variant {variant!r}, which would be "
            f"{_OF_VARIANT[0].format(variant)}. The folder has: {there or 'no weights'}. "
            + (f"Pass {calls}." if calls else "Leave `variant` out." if plain else "")
        ).rstrip()
    if variants:
        return (
            f"{directory}: the weights are there in {len(variants)} variants. Pass {calls}. "
            + in_a_shell(f"--variant {variants[0]}")
        )
    if foreign := describe_foreign(directory):
        return foreign
    return (
        f"{file_io.missing_file(directory / WEIGHTS)} A repository that has only a {PICKLE} "
        f"opens with allow_pickle=True. {in_a_shell('--allow-pickle')}"
    )


# === Foreign formats ===


_TENSORFLOW = (
    "written by a TensorFlow class of transformers 4, which is not read. Take the "
    f"{WEIGHTS} that most repositories have beside it, or convert it with "
    "transformers 4: docs/migration.md of bert_keras says how."
)
_RUNTIME = (
    "a program for another runtime, without the names of the layers, so no model is made of it. "
    "Open the checkpoint that it was exported from. The folder of an export of this package "
    "answers with bert_keras.export.RuntimePredictor."
)
_OF_TORCH = (
    "a pickle of PyTorch. If it holds the weights (also under `state_dict`, as PyTorch Lightning "
    f"writes them): name it {PICKLE}, put the config.json of the model beside it, and pass "
    "allow_pickle=True."
)
_TRAINING = (
    "the state of an optimizer or of a training, and no weights. Name the folder that has the "
    f"{WEIGHTS} of this training."
)
_ONE_OF_SEVERAL = (
    f"one of several files, whose index is missing. Copy {INDEX} (for .bin: {PICKLE_INDEX}) too."
)
# Glob of the file -> sentence about it. The first one that exists is named.
_FOREIGN = {
    "tf_model.h5": _TENSORFLOW,
    "tf_model.h5.index.json": _TENSORFLOW,
    "flax_model*.msgpack*": (
        "written by a Flax class of transformers 4, which is not read. Take the "
        f"{WEIGHTS} that most repositories have beside it, or convert it with transformers 4 and "
        "JAX: AutoModel.from_pretrained(FOLDER, from_flax=True).save_pretrained(NEW_FOLDER)."
    ),
    "*-?????-of-?????.safetensors": _ONE_OF_SEVERAL,
    "*-?????-of-?????.bin": _ONE_OF_SEVERAL,
    "*.safetensors": (
        f"a safetensors file under another name. If it holds the weights, name it {WEIGHTS}."
    ),
    "*.gguf": "quantised for llama.cpp, which is not read. Open the checkpoint it was made from.",
    "rust_model.ot": f"for rust-bert, which is not read. Take the {WEIGHTS} of the repository.",
    "*.onnx": _RUNTIME,
    "onnx/*.onnx": _RUNTIME,
    "openvino_model.xml": _RUNTIME,
    "openvino/*.xml": _RUNTIME,
    "*.tflite": _RUNTIME,
    "*.mlmodel": _RUNTIME,
    "coreml/*": _RUNTIME,
    "*.keras": "a file of Keras. Open it with keras.models.load_model after `import bert_keras`.",
    "optimizer.pt": _TRAINING,
    "optimizer.bin": _TRAINING,
    "scheduler.pt": _TRAINING,
    "trainer_state.json": _TRAINING,
    "global_step*/*_states.pt": (
        "written by DeepSpeed, in parts. Join them with its zero_to_fp32.py, which it puts beside "
        f"them, into a {PICKLE}."
    ),
    "*.index": (
        "a checkpoint of TensorFlow. Copy it with its .data files and the bert_config.json of the "
        "model into a folder without a config.json."
    ),
    "*.ckpt": _OF_TORCH,
    "*.bin": _OF_TORCH,
    "*.pt": _OF_TORCH,
    "*.pth": _OF_TORCH,
    "*.h5": (
        "weights of a model of Keras. Build the model that it was written from, call its "
        "load_weights, and then its save_to_preset."
    ),
}


def describe_foreign(directory: Path) -> str:
    """Return the message about a file of a format that is not read; "" if there is none.

    A folder with weights that can be read has none.
    """
    if variants_in(directory) or any((directory / name).is_file() for name in FILES):
        return ""
    for pattern, sentence in _FOREIGN.items():
        # Names that begin with "training_args" are settings. "bert_keras" begins our own files.
        found = sorted(
            path
            for path in directory.glob(pattern)
            if path.is_file() and not path.name.startswith(("training_args", "bert_keras", "rng_"))
        )
        if found:
            return f"{found[0]}: {sentence}"
    return ""
