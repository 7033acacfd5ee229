"""Ours and the peers, to train or to infer: who is measured in most of these benchmarks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.contest import Contender

OURS, KERAS_HUB, TRANSFORMERS = "bert_keras", "KerasHub", "transformers"
BACKENDS = ("tensorflow", "jax", "torch")
# The modules whose functions `ours`, `keras_hub` and `transformers` prepare them.
MODULES = {"training": "benchmarks.train_steppers", "inference": "benchmarks.mean_vectors"}


def contenders(
    mode: str,
    size: Mapping[str, int],
    dtype: str = "float32",
    *,
    attention_dropout: float = 0.1,
    checkpointed: bool = False,
    chunks: int = 1,
    option: str = "",
) -> list[Contender]:
    """Ours and KerasHub on each backend, and transformers; without those who cannot do this.

    Args:
        mode: "training" or "inference".
        size: as for `train_steppers.sizes_of`.
        dtype: a Keras dtype policy.
        attention_dropout: in training. KerasHub has one rate of dropout, which this one becomes.
        checkpointed: whether blocks are computed again for their gradients, in training.
        chunks: parts of the vocabulary in the loss, in training.
        option: what of it all their names say.
    """
    common: dict[str, Any] = {"size": dict(size), "dtype": dtype}
    kind: dict[str, Any] = {}
    ours_kind: dict[str, Any] = {}
    hub_kind: dict[str, Any] = {}
    if mode == "training":
        kind = {"attention_dropout": attention_dropout, "checkpointed": checkpointed}
        ours_kind = {**kind, "chunks": chunks}
        hub_kind = {"dropout": attention_dropout}

    def contender(name: str, function: str, own: dict[str, Any], backend: str = "") -> Contender:
        title = ", ".join(filter(None, (name, backend, option)))
        return Contender(title, f"{MODULES[mode]}:{function}", {**common, **own}, backend)

    found = []
    for backend in BACKENDS:
        found.append(contender(OURS, "ours", ours_kind, backend))
        if not checkpointed and chunks == 1:
            found.append(contender(KERAS_HUB, "keras_hub", hub_kind, backend))
    return found if chunks > 1 else [*found, contender(TRANSFORMERS, "transformers", kind)]
