"""Runtimes without their telemetry."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

# Read by ONNX Runtime at its import. Without it, recent versions write a number of the device and a
# database of events below the home folder, and send them.
_ONNX_RUNTIME = "ORT_DISABLE_TELEMETRY"
_OPENVINO = "openvino_telemetry"


def switch_off() -> None:
    """Keep ONNX Runtime, OpenVINO and NNCF from reporting what this process does.

    `import openvino` and every conversion would contact an analytics host, and write an identifier
    below the home folder. OpenVINO and NNCF do without where the package openvino_telemetry is not
    installed; from here on its import fails. A library that was imported before is switched off as
    it is. No file is written for any of that.
    """
    os.environ.setdefault(_ONNX_RUNTIME, "1")
    if (onnx_runtime := sys.modules.get("onnxruntime")) is not None:
        onnx_runtime.disable_telemetry_events()
    if (package := sys.modules.get(_OPENVINO)) is None:
        sys.modules[_OPENVINO] = None  # pyright: ignore[reportArgumentType]
    elif package.Telemetry is not _NoTelemetry:
        with contextlib.suppress(RuntimeError):  # there is no instance yet
            package.Telemetry().consent = False  # of the only instance, which NNCF holds too
        # OpenVINO calls this class at every conversion, which would look for consent anew.
        package.Telemetry = _NoTelemetry


class _NoTelemetry:
    """The class `Telemetry` of openvino_telemetry, with methods that do nothing."""

    def __init__(self, *arguments: Any, **options: Any):
        del arguments, options

    def __getattr__(self, name: str) -> Any:
        if name == "backend":  # OpenVINO asks whether there is one
            raise AttributeError(name)
        return lambda *arguments, **options: None  # noqa: ARG005
