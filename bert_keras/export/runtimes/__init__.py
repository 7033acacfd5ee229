"""Models in the files of other runtimes: ONNX, LiteRT, OpenVINO, `torch.export`."""
