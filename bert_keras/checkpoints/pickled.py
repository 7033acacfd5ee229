"""pytorch_model.bin, for those who ask for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from bert_keras.checkpoints.tensors import Tensors, renamed
from bert_keras.errors import ArtifactError


class PickledTensors(Tensors):
    """A pytorch_model.bin, by PyTorch's reader that makes nothing but tensors.

    Args:
        path: the file.
        rename: as for `TensorFile`.

    Raises:
        ArtifactError: it holds something else.
        ImportError: PyTorch is not installed.
    """

    def __init__(self, path: Path, rename: Callable[[str], str] = str):
        import torch

        self.path = path
        try:
            loaded = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # whatever a damaged or hostile pickle raises
            raise ArtifactError(
                f"{path}: PyTorch does not read it as mere weights ({str(error)[:300]})."
            ) from error
        if not isinstance(loaded, dict) or not all(map(torch.is_tensor, loaded.values())):
            raise ArtifactError(f"{path}: not a dictionary of tensors.")
        for name, tensor in loaded.items():
            is_dense = tensor.layout == torch.strided and tensor.device.type == "cpu"
            if (
                not isinstance(name, str)
                or not is_dense
                or tensor.untyped_storage().nbytes() < tensor.numel() * tensor.element_size()
            ):
                raise ArtifactError(f"{path}: {name}: not a tensor with all its numbers.")
        names = renamed(path, loaded, rename)
        self._tensors = {name: loaded[stored].detach() for name, stored in names.items()}
        self.shapes = {name: tuple(tensor.shape) for name, tensor in self._tensors.items()}

    def rows(self, name: str) -> Iterator[tuple[int, np.ndarray]]:
        """The values of one tensor, at once: they are in memory."""
        tensor = self._tensors[name]
        yield 0, (tensor.float() if tensor.is_floating_point() else tensor).numpy()
