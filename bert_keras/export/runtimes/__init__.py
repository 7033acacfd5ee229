"""Models in the files of other runtimes: ONNX, LiteRT, OpenVINO, `torch.export`."""

from bert_keras.export.runtimes import telemetry

__all__ = ["telemetry"]

# Whatever here imports a runtime is imported after this module.
telemetry.switch_off()
