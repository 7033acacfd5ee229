"""Inference: ours and the others, each making one vector of each row, the mean of its tokens'.

Used as the documentation recommends: ours and KerasHub by `predict`, transformers in PyTorch's
inference mode, without gradients. Rows are full. With `weights`, a folder that `write_weights`
wrote, all compute with the same weights, and write the first batch's vectors to `told`.
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
    sizes_of,
    transformers_config,
)


def write_weights(size: Size, folder: str, activation: str) -> Round:
    """Writes an encoder with new weights, in a layout that all of these open; no figures."""
    import keras

    keras.utils.set_random_seed(0)
    our_encoder(sizes_of(size), "float32", activation=activation).save_to_preset(folder)
    return dict


def ours(size: Size, dtype: str, *, weights: str = "", told: str = "") -> Round:
    """`SentenceEncoder` by `predict`.

    Args:
        size: as for `sizes_of`.
        dtype: a Keras dtype policy.
        weights: a folder that `write_weights` wrote; "" for new weights.
        told: where the first batch's vectors are written, as NumPy's file; "" for nowhere.
    """
    from bert_keras import BertEncoder, SentenceEncoder

    sizes = sizes_of(size)
    if weights:
        encoder = BertEncoder.from_preset(weights, dtype=dtype)
    else:
        encoder = our_encoder(sizes, dtype)
    task = SentenceEncoder(encoder, normalize=False)
    return _by_predict(task, sizes, told)


def keras_hub(size: Size, dtype: str, *, weights: str = "", told: str = "") -> Round:
    """KerasHub's `BertBackbone` by `predict`, with a mean over the tokens."""
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
    def given(count: int) -> dict[str, Any]:
        part = {name: values[:count] for name, values in inputs.items()}
        return (
            {"x": untuned_batches(part, batch)}
            if is_tensorflow
            else {"x": part, "batch_size": batch}
        )

    def predict(count: int) -> np.ndarray:
        found = model.predict(**given(count), verbose=0)
        return found["sentence_vector"] if isinstance(found, dict) else found

    return _rounds(predict, sizes, told)


def transformers(
    size: Size,
    dtype: str,
    *,
    compiled: bool = False,
    masked: bool = True,
    weights: str = "",
    told: str = "",
) -> Round:
    """`BertModel` with a mean over the tokens, on a GPU if there is one; SDPA's attention.

    Args:
        size: as for `sizes_of`.
        dtype: "mixed_bfloat16" for weights in bfloat16, as from `from_pretrained(dtype=)`.
        compiled: whether by `torch.compile`.
        masked: whether it is given a padding mask, which full rows can do without.
        weights: as for `ours`.
        told: likewise.
    """
    import torch
    from transformers import BertModel

    torch.manual_seed(0)
    sizes, device = sizes_of(size), "cuda" if torch.cuda.is_available() else "cpu"
    config = transformers_config(sizes)
    model: Any = BertModel.from_pretrained(weights) if weights else BertModel(config)
    kind = torch.bfloat16 if dtype == "mixed_bfloat16" else torch.float32
    model = model.eval().to(device, kind)
    call = torch.compile(model) if compiled else model
    batch = sizes["batch"]
    ids = torch.tensor(rows(sizes, sizes["steps"])["ids"], dtype=torch.long)

    def predict(count: int) -> np.ndarray:
        vectors = []
        with torch.inference_mode():
            for start in range(0, count, batch):
                given = ids[start : start + batch].to(device)
                mask = torch.ones_like(given) if masked else None
                states = call(input_ids=given, attention_mask=mask).last_hidden_state
                vectors.append(states.float().mean(1))
            return torch.cat(vectors).cpu().numpy()

    return _rounds(predict, sizes, told)


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


# === Whether contenders with the same weights make the same vectors.


def sharing(
    contenders: Sequence[Contender], folder: Path, console: Console, activation: str = "gelu"
) -> list[Contender]:
    """The same contenders of `mean_vectors`, with one model's weights, telling their vectors.

    Args:
        contenders: functions of `mean_vectors`, of one size.
        folder: where weights and vectors are written.
        console: where it is told who fails.
        activation: of that model; KerasHub's is always "gelu_tanh".

    Returns:
        Them; as they came where no weights could be written.
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
        return list(contenders)  # each with weights of its own: that is as fast
    shared = {"weights": str(weights)}
    return [
        replace(each, arguments={**each.arguments, **shared, "told": str(_told(folder, each.name))})
        for each in contenders
    ]


def told(contenders: Sequence[Contender], peer: str, folder: Path) -> dict[str, float]:
    """The largest difference of each one's vectors to those of the peer; {} without these.

    Args:
        contenders: those of `sharing`, after they ran.
        peer: the name of one of them.
        folder: as for `sharing`.
    """
    paths = {each.name: _told(folder, each.name) for each in contenders}
    vectors = {name: np.load(path) for name, path in paths.items() if path.is_file()}
    if peer not in vectors:
        return {}
    return {
        name: float(np.abs(found - vectors[peer]).max())
        for name, found in vectors.items()
        if name != peer
    }


def differences(
    contenders: Sequence[Contender], peer: str, folder: Path, console: Console
) -> dict[str, float]:
    """The largest difference of each to the peer's vectors; each runs once, as KerasHub can."""
    alike = sharing(contenders, folder, console, "gelu_tanh")
    contest(alike, 1, console, together=False)
    return told(alike, peer, folder)


def _told(folder: Path, name: str) -> Path:
    return folder / f"{name.replace(' ', '_')}.npy"
