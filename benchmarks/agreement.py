"""Whether contenders with the same weights make the same vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Console

from benchmarks.contest import Contender, contest


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
