"""Writers of model files for other runtimes: ONNX, LiteRT, OpenVINO, `torch.export`."""

from bert_keras.export.runtimes.formats import switch_off_telemetry

__all__ = ["switch_off_telemetry"]

# This must run before a module of this folder imports a runtime.
switch_off_telemetry()
