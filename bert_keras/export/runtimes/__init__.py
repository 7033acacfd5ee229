"""Models in the files of other runtimes: ONNX, LiteRT, OpenVINO, `torch.export`."""

from bert_keras.export.runtimes.formats import switch_off_telemetry

__all__ = ["switch_off_telemetry"]

# Whatever here imports a runtime is imported after this module.
switch_off_telemetry()
