"""What each runtime's format needs: its file, backends that write it, and libraries."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass

FLOAT16, INT8, INT8_DYNAMIC = "float16", "int8", "int8_dynamic"


@dataclass(frozen=True)
class Format:
    """A file format of models that take ids.

    Attributes:
        file: its name in the folder.
        module: of this package; its `write` makes the file.
        writers: the libraries that write it, by the Keras backend that they need, the best first.
        extra: of this package, which brings them.
        quantizers: by each quantization that it has, more libraries, which that needs.
    """

    file: str
    module: str
    writers: Mapping[str, tuple[str, ...]]
    extra: str
    quantizers: Mapping[str, tuple[str, ...]]

    def backend(self, preferred: str, quantization: str | None) -> str:
        """The backend to write it with: that one if it can, else another that is installed.

        Raises:
            ImportError: no backend with its libraries is installed.
        """
        order = sorted(self.writers, key=lambda name: name != preferred)
        lacking = {
            name: [
                library
                for library in (*self.writers[name], *self.quantizers.get(quantization or "", ()))
                if importlib.util.find_spec(library) is None
            ]
            for name in order
        }
        for name in order:
            if not lacking[name]:
                return name
        best = order[0]
        raise ImportError(
            f"{self.file} needs {', '.join(lacking[best])}. "
            f'Install with: pip install "bert-keras[{self.extra},{best}]"'
        )


_ONNX = {"torch": ("torch", "onnx", "onnxscript"), "tensorflow": ("tensorflow", "onnx", "tf2onnx")}
FORMATS = {
    "onnx": Format(
        file="model.onnx",
        module="onnx_model",
        writers=_ONNX,
        extra="onnx",
        quantizers={
            FLOAT16: ("onnxruntime",),
            INT8: ("onnxruntime", "onnx_ir"),
            INT8_DYNAMIC: ("onnxruntime",),
        },
    ),
    "openvino": Format(
        file="model.xml",
        module="openvino_model",
        writers={name: (*libraries, "openvino") for name, libraries in _ONNX.items()},
        extra="openvino",
        quantizers={FLOAT16: (), INT8: ("nncf",)},
    ),
    "litert": Format(
        file="model.tflite",
        module="litert",
        writers={"tensorflow": ("tensorflow",)},
        extra="litert",
        quantizers={FLOAT16: (), INT8: ()},
    ),
    "torch": Format(
        file="model.pt2",
        module="torch_program",
        writers={"torch": ("torch",)},
        extra="torch",
        quantizers={FLOAT16: (), INT8: ()},
    ),
}


def chosen(name: str, quantization: str | None) -> Format:
    """A format that has a quantization.

    Raises:
        ValueError: there is none of that name, or it has not that quantization.
    """
    if name not in FORMATS:
        raise ValueError(f"A format is one of {', '.join(FORMATS)}. Received: {name!r}")
    known = FORMATS[name].quantizers
    if quantization is not None and quantization not in known:
        raise ValueError(
            f"The quantization of {name} is none, or one of {', '.join(known)}. "
            f"Received: {quantization!r}"
        )
    return FORMATS[name]
