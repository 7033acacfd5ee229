"""Contenders that infer: the mean token vector of each row, with bert_keras and other libraries.

Each library is used as its documentation recommends. bert_keras and KerasHub use `predict`,
transformers uses PyTorch's inference mode. All rows are full. The argument `weights` names a folder
that `write_weights` wrote, so that all contenders compute with the same weights. The argument
`told` names a file for the vectors of the first batch, so that they can be compared.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.contest import Contender, contest, untuned_batches
from benchmarks.train_steppers import (
    Round,
    Size,
    figures,
    keras_hub_backbone,
    our_encoder,
    rows,
    shaped_config,
    shaped_encoder,
    sizes_of,
    transformers_config,
)


def write_weights(size: Size, folder: str, activation: str) -> Round:
    """Write an encoder with random weights that all contenders can open.

    It is a contender without figures.

    Args:
        size: sizes of the model and the batch, as for `sizes_of`.
        folder: the new folder.
        activation: activation of the feed-forward layers.
    """
    import keras

    keras.utils.set_random_seed(0)
    our_encoder(sizes_of(size), "float32", activation=activation).save_to_preset(folder)
    return dict


def ours(size: Size, dtype: str, *, weights: str = "", told: str = "", shape: str = "") -> Round:
    """Prepare a contender that runs `SentenceEncoder` of bert_keras with `predict`.

    Args:
        size: sizes of the model and the batch, as for `sizes_of`.
        dtype: a Keras dtype policy.
        weights: a folder that `write_weights` wrote; "" for random weights.
        told: path of a .npy file for the vectors of the first batch; "" to write none.
        shape: a key of `train_steppers.SHAPES`; "" for BERT's shape.
    """
    from bert_keras import BertEncoder, SentenceEncoder

    sizes = sizes_of(size)
    if weights:
        encoder = BertEncoder.from_preset(weights, dtype=dtype)
    elif shape:
        encoder = shaped_encoder(sizes, dtype, shape)
    else:
        encoder = our_encoder(sizes, dtype)
    task = SentenceEncoder(encoder, normalize=False)
    return _by_predict(task, sizes, told)


def keras_hub(size: Size, dtype: str, *, weights: str = "", told: str = "") -> Round:
    """Prepare a contender that runs KerasHub's `BertBackbone` with `predict`.

    The arguments are those of `ours`.
    """
    import keras

    sizes = sizes_of(size)
    backbone = keras_hub_backbone(sizes, dtype)
    if weights:
        import bert_keras

        source = bert_keras.BertEncoder.from_preset(weights)
        backbone.set_weights(bert_keras.to_keras_hub(source).get_weights())
    vectors = keras.ops.mean(keras.ops.cast(backbone.output["sequence_output"], "float32"), axis=1)
    return _by_predict(keras.Model(backbone.input, vectors), sizes, told)


def _by_predict(model: Any, sizes: dict[str, int], told: str) -> Round:
    import keras

    batch = sizes["batch"]
    ids = rows(sizes, sizes["steps"])["ids"]
    inputs = {
        "token_ids": ids,
        "segment_ids": np.zeros_like(ids),
        "padding_mask": np.ones_like(ids),
    }
    is_tensorflow = keras.backend.backend() == "tensorflow"

    @functools.cache
    def arguments_of(count: int) -> dict[str, Any]:
        part = {name: values[:count] for name, values in inputs.items()}
        return (
            {"x": untuned_batches(part, batch)}
            if is_tensorflow
            else {"x": part, "batch_size": batch}
        )

    def predict(count: int) -> np.ndarray:
        outputs = model.predict(**arguments_of(count), verbose=0)
        return outputs["sentence_vector"] if isinstance(outputs, dict) else outputs

    return _rounds(predict, sizes, told)


def transformers(
    size: Size,
    dtype: str,
    *,
    compiled: bool = False,
    masked: bool = True,
    weights: str = "",
    told: str = "",
    shape: str = "",
) -> Round:
    """Prepare a contender that runs an encoder of transformers.

    It runs on a GPU if there is one, with SDPA for attention.

    Args:
        size: sizes of the model and the batch, as for `sizes_of`.
        dtype: "mixed_bfloat16" for weights in bfloat16, as from `from_pretrained(dtype=)`.
        compiled: whether to compile the model with `torch.compile`.
        masked: whether to pass a padding mask, which full rows do not need.
        weights: a folder that `write_weights` wrote; "" for random weights.
        told: path of a .npy file for the vectors of the first batch; "" to write none.
        shape: as for `ours`.
    """
    import torch
    from transformers import AutoModel

    torch.manual_seed(0)
    sizes, device = sizes_of(size), "cuda" if torch.cuda.is_available() else "cpu"
    if weights:
        model: Any = AutoModel.from_pretrained(weights)
    else:
        config = shaped_config(sizes, shape) if shape else transformers_config(sizes)
        model = AutoModel.from_config(config)
    kind = torch.bfloat16 if dtype == "mixed_bfloat16" else torch.float32
    model = model.eval().to(device, kind)
    call = torch.compile(model) if compiled else model
    batch = sizes["batch"]
    ids = torch.tensor(rows(sizes, sizes["steps"])["ids"], dtype=torch.long)

    def predict(count: int) -> np.ndarray:
        vectors = []
        with torch.inference_mode():
            for start in range(0, count, batch):
                part = ids[start : start + batch].to(device)
                mask = torch.ones_like(part) if masked else None
                states = call(input_ids=part, attention_mask=mask).last_hidden_state
                vectors.append(states.float().mean(1))
            return torch.cat(vectors).cpu().numpy()

    return _rounds(predict, sizes, told)


def mean_of_tokens(preset: str) -> tuple[Any, list[str]]:
    """Return transformers' encoder with unit vectors as its output, and the names of its inputs.

    The mask is the last input.

    Args:
        preset: folder of a sentence encoder.
    """
    import torch
    from transformers import AutoModel, AutoTokenizer

    names = list(AutoTokenizer.from_pretrained(preset).model_input_names)

    class MeanOfTokens(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = AutoModel.from_pretrained(preset)

        def forward(self, *inputs: Any) -> Any:
            outputs = self.model(**dict(zip(names, inputs, strict=True)))
            tokens = outputs.last_hidden_state
            weights = inputs[-1].unsqueeze(-1).to(tokens.dtype)
            mean = (tokens * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
            return torch.nn.functional.normalize(mean, p=2, dim=1)

    return MeanOfTokens().eval(), names


def _rounds(predict: Callable[[int], np.ndarray], sizes: dict[str, int], told: str) -> Round:
    count = sizes["batch"] * sizes["steps"]
    first = predict(sizes["batch"])
    predict(count)
    if told:
        np.save(told, first)

    def run() -> dict[str, float]:
        begin = time.perf_counter()
        predict(count)
        return figures(sizes, time.perf_counter() - begin)

    return run


# === Comparison of the vectors of contenders with the same weights ===


def sharing(
    contenders: Sequence[Contender], folder: Path, console: Console, activation: str = "gelu"
) -> list[Contender]:
    """Return the contenders with the same weights, and with files for their vectors.

    Args:
        contenders: contenders of this module, all of the same size.
        folder: folder for the weights and the vectors.
        console: where a failure to write the weights is printed.
        activation: activation of the feed-forward layers. KerasHub always uses "gelu_tanh".

    Returns:
        The changed contenders; the unchanged ones if the weights could not be written.
    """
    weights = folder / "weights"
    size = contenders[0].arguments["size"] if contenders else {}
    writer = Contender(
        "the weights",
        "benchmarks.mean_vectors:write_weights",
        {"size": size, "folder": str(weights), "activation": activation},
        next((each.backend for each in contenders if each.backend), ""),
    )
    if writer.name not in contest([writer], 1, console):
        return list(contenders)  # random weights of their own do not change the speed
    shared = {"weights": str(weights)}
    return [
        replace(each, arguments={**each.arguments, **shared, "told": str(_told(folder, each.name))})
        for each in contenders
    ]


def told(contenders: Sequence[Contender], peer: str, folder: Path) -> dict[str, float]:
    """Return the largest difference of each contender's vectors to those of a peer.

    Args:
        contenders: contenders from `sharing`, after their rounds.
        peer: name of the contender to compare with.
        folder: the folder that `sharing` was given.

    Returns:
        Differences by name; an empty dict if the peer wrote no vectors.
    """
    paths = {each.name: _told(folder, each.name) for each in contenders}
    vectors = {name: np.load(path) for name, path in paths.items() if path.is_file()}
    if peer not in vectors:
        return {}
    return {
        name: float(np.abs(array - vectors[peer]).max())
        for name, array in vectors.items()
        if name != peer
    }


def differences(
    contenders: Sequence[Contender], peer: str, folder: Path, console: Console
) -> dict[str, float]:
    """Run each contender once, and return the largest difference of its vectors to the peer's.

    The models use the tanh approximation of GELU, because KerasHub has no other.

    Args:
        contenders: contenders of this module, all of the same size.
        peer: name of the contender to compare with.
        folder: folder for the weights and the vectors.
        console: where failures are printed.
    """
    alike = sharing(contenders, folder, console, "gelu_tanh")
    contest(alike, 1, console, together=False)
    return told(alike, peer, folder)


def _told(folder: Path, name: str) -> Path:
    return folder / f"{name.replace(' ', '_')}.npy"
