"""Reader of PyTorch's pickled weights, such as pytorch_model.bin, that runs no code of the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bert_keras.checkpoints import tensors
from bert_keras.checkpoints.manifest import WEIGHTS
from bert_keras.errors import COPY_AGAIN, ArtifactError

# Keys under which programs store the weights beside their optimizer: PyTorch's tutorials,
# PyTorch Lightning and DeepSpeed.
_USUAL_KEYS = ("state_dict", "model_state_dict", "model", "module", "net")
_DEEPEST = 3  # dictionaries within each other
_MOST_KEYS = 8  # keys that a message lists
_ZIP = b"PK\x03\x04"  # first bytes of a file that PyTorch 1.6 or later wrote
# Part of PyTorch's message that names the class that the file refers to.
_GLOBAL = re.compile(r"Unsupported (?:global: GLOBAL|class) ([\w.]+)")


class PickledTensors(tensors.Tensors):
    """The tensors of a file that `torch.save` wrote.

    PyTorch reads the file with `weights_only`, which runs no code of the file. The values of a file
    of PyTorch 1.6 or later stay on the disk until they are read.

    Args:
        path: path of the file.
        rename: maps the name of a tensor in the file to the name used by callers.

    Raises:
        ArtifactError: if PyTorch cannot read the file, it has no dictionary of whole, dense
            tensors or more than one, or two tensors get the same name.
        ImportError: if PyTorch is not installed.
    """

    def __init__(self, path: Path, rename: Callable[[str], str] = str):
        import torch

        self.path = path
        with path.open("rb") as file:
            is_zip = file.read(len(_ZIP)) == _ZIP
        try:
            loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
        except Exception as error:  # a damaged or hostile pickle can raise any type
            raise ArtifactError(
                f"{path}: PyTorch cannot read it as weights alone ({_reason(str(error))}). Use a "
                f"{WEIGHTS}, or save the state_dict of the model again, and nothing else: "
                "torch.save(model.state_dict(), …)."
            ) from None  # PyTorch's message advises to run the code of the file
        stored, key = _state_dict(loaded, path)
        if key:
            self.notes = (f"{path}: the weights are those under {key!r} in the file.",)
        for name, tensor in stored.items():
            is_dense = tensor.layout == torch.strided and tensor.device.type == "cpu"
            # A damaged file may declare a shape that needs more bytes than the file holds.
            if (
                not isinstance(name, str)
                or not is_dense
                or tensor.untyped_storage().nbytes() < tensor.numel() * tensor.element_size()
            ):
                raise ArtifactError(f"{path}: {name}: not a whole, dense tensor. {COPY_AGAIN}")
        names = tensors.renamed(path, stored, rename)
        self._tensors = {name: stored[its_name].detach() for name, its_name in names.items()}
        self.shapes = {name: tuple(tensor.shape) for name, tensor in self._tensors.items()}

    def rows(self, name: str) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the values of one tensor as one part: (0, values)."""
        tensor = self._tensors[name]
        yield 0, (tensor.float() if tensor.is_floating_point() else tensor).numpy()

    def close(self) -> None:
        """Release the file."""
        self._tensors = {}


def _reason(message: str) -> str:
    """Return why PyTorch does not read a file, without its advice to run the code of the file."""
    refers = _GLOBAL.search(message)
    if refers:
        return f"the file refers to {refers[1]}, which is code"
    if "Weights only load failed" in message:
        return "the file is damaged, or holds more than tensors"
    return message.strip().partition("\n")[0][:200]


def _state_dict(loaded: Any, path: Path) -> tuple[Mapping[Any, Any], str]:
    """Return the dictionary of tensors in a loaded file, and its key; "" for the whole file.

    Raises:
        ArtifactError: if there is none, or there are several and none has a usual key alone.
    """
    if _is_state_dict(loaded):
        return loaded, ""
    within = dict(_dictionaries(loaded, ()))
    usual = [keys for keys in within if all(key in _USUAL_KEYS for key in keys)]
    chosen = usual if len(usual) == 1 else list(within)
    if len(chosen) == 1:
        return within[chosen[0]], ".".join(chosen[0])
    save = "Save the state_dict of the model alone: torch.save(model.state_dict(), …)."
    if chosen:
        keys = ", ".join(repr(".".join(keys)) for keys in chosen[:_MOST_KEYS])
        raise ArtifactError(f"{path}: holds the weights of several models, under {keys}. {save}")
    raise ArtifactError(
        f"{path}: not a dictionary of tensors. Received: {_outline(loaded)}. {save}"
    )


def _is_state_dict(value: Any) -> bool:
    """Return whether a value is a dictionary of tensors."""
    import torch

    return isinstance(value, dict) and bool(value) and all(map(torch.is_tensor, value.values()))


def _dictionaries(
    value: Any, keys: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Yield the dictionaries of named tensors within a value: (keys that lead there, tensors)."""
    if not isinstance(value, dict) or len(keys) == _DEEPEST:
        return
    for key, inner in value.items():
        if not isinstance(key, str):
            continue
        if _is_state_dict(inner) and all(isinstance(name, str) for name in inner):
            yield (*keys, key), inner
        else:
            yield from _dictionaries(inner, (*keys, key))


def _outline(value: Any) -> str:
    """Return the type of a value and, of a dictionary, its first keys with their types."""
    if not isinstance(value, dict):
        return type(value).__name__
    items = list(value.items())[:_MOST_KEYS]
    return ", ".join(f"{key!r:.60} ({type(inner).__name__})" for key, inner in items) or "{}"
