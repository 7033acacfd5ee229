"""Writer of `torch.export` programs, also a step to ONNX. PyTorch backend only."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, BinaryIO

import keras
import torch

from bert_keras.export.runtimes.formats import Axes, flat, input_axes, output_axes

_EXAMPLE = {"batch": 2, "texts": 3, "length": 5, "predictions": 4}  # axis name -> example size


class Program(torch.nn.Module):
    """A model for inference as a PyTorch module, with a copy of its weights.

    Args:
        model: task or encoder that computes in float32.
        quantization: "float16" or "int8" stores the weights in that type and converts them to
            float32 in each call; None for float32. "int8" is for matrices. It stores 256 levels
            between the lowest and the highest value of each row of a table or column of a kernel.
    """

    def __init__(self, model: keras.Model, quantization: str | None = None):
        super().__init__()
        self._names = list(output_axes(model))
        self._model = [model]  # in a list, so that PyTorch does not store its weights as well
        self._kept = [
            [_Weight(variable, quantization) for variable in variables]
            for variables in (model.trainable_variables, model.non_trainable_variables)
        ]
        for weight in self._kept[0] + self._kept[1]:
            for name, value in weight.values.items():
                self.register_buffer(f"{weight.name}{name}", value)

    def forward(self, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Run the model: int32 inputs by name -> float32 outputs by name."""
        values = [[weight.widened(self) for weight in weights] for weights in self._kept]
        outputs, _ = self._model[0].stateless_call(*values, inputs, training=False)
        tensors = flat(outputs)
        return {name: tensors[name].float() for name in self._names}


class _Weight:
    """A variable in its stored form; see `Program` for `quantization`.

    Attributes:
        name: name of its buffer in the program.
        values: suffix of a buffer's name -> its tensor. "int8" needs three buffers.
    """

    def __init__(self, variable: Any, quantization: str | None):
        value = variable.value.detach().cpu()
        self.name = variable.path.replace("/", "_").replace(".", "_")
        self.values = {"": value}
        if not value.is_floating_point():
            return
        if quantization == "float16":
            self.values = {"": value.half()}
        elif quantization == "int8" and value.ndim == 2:
            axis = 1 if variable.name == "embeddings" else 0
            lowest, highest = value.aminmax(dim=axis, keepdim=True)
            scale = ((highest - lowest) / 255).clamp(min=1e-12)
            steps = torch.round((value - lowest) / scale).to(torch.uint8)
            self.values = {"": steps, "_scale": scale, "_lowest": lowest}

    def widened(self, program: Program) -> torch.Tensor:
        """Return the variable in float32 from the buffers of the program."""
        value: torch.Tensor = getattr(program, self.name)  # PyTorch 2.7 cannot trace `get_buffer`
        if "_scale" in self.values:
            scale, lowest = (getattr(program, self.name + key) for key in ("_scale", "_lowest"))
            return value.float() * scale + lowest
        return value.float() if value.is_floating_point() else value


def _example(sizes: Axes) -> list[int]:
    """Return an example shape. Its sizes differ, because PyTorch would treat equal ones as one."""
    return [_EXAMPLE[size] if isinstance(size, str) else size for size in sizes]


def exported(model: keras.Model, quantization: str | None = None) -> torch.export.ExportedProgram:
    """Return a model as an exported program for batches and lengths of any size."""
    # Sorted by name: PyTorch 2.8 and 2.9 take inputs only in the order of the example.
    axes = dict(sorted(input_axes(model).items()))
    example = {name: torch.ones(_example(sizes), dtype=torch.int32) for name, sizes in axes.items()}
    open_axes = {
        name: {
            axis: torch.export.Dim.DYNAMIC for axis, size in enumerate(sizes) if size in _EXAMPLE
        }
        for name, sizes in axes.items()
    }
    program = Program(model, quantization).eval()
    # On the CPU, even if the model is on a GPU, so that the program runs on any machine.
    with keras.device("cpu"), torch.no_grad():
        result = torch.export.export(program, (example,), dynamic_shapes=(open_axes,))
    for module in result.graph_module.modules():
        for node in getattr(module, "graph").nodes:  # noqa: B009
            # Stack traces contain paths of this machine, and are most of a small file.
            node.meta.pop("stack_trace", None)
    return result


def write(model: keras.Model, path: Path, quantization: str | None) -> None:
    """Write a .pt2 file.

    Raises:
        OSError: if it cannot be written.
    """
    program = exported(model, quantization)
    with path.open("wb") as file:
        target: Any = _KeepsError(file)
        try:
            torch.export.save(program, target)
        except Exception as error:
            raise target.error or error from None
        if target.error is not None:
            raise target.error


class _KeepsError(io.BufferedIOBase):
    """A file whose `write` stores an error instead of raising it.

    PyTorch's archive writer writes again in its destructor, where an error ends the process
    (`terminate called after throwing an instance of 'c10::Error'`).
    """

    def __init__(self, file: BinaryIO):
        super().__init__()
        self._file = file
        self.error: OSError | None = None

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def write(self, data: Any) -> int:
        """Write bytes until the first error, which is kept; return their number."""
        if self.error is None:
            try:
                return self._file.write(data)
            except OSError as error:
                self.error = error
        return len(data)
