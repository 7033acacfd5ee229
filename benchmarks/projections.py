"""Speed of query, key and value as three matrix products and as one product.

    python -m benchmarks.projections [--rounds 5] [--quick] [--out projections.json]

Checkpoints and adapters have three matrices, and so has `SelfAttention`. This benchmark measures
whether one product with the weights side by side would be faster. The products have biases, and are
compiled as `fit` and `predict` compile them. They are measured with and without all gradients, for
the numbers of tokens of texts and of training steps. Each backend has a process of its own, and the
backends take turns. Both ways take turns within a round.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.contest import BACKENDS, Contender, contest, summary

PACKAGES = ("bert-keras", "keras", "tensorflow", "jax", "torch")
# Number of tokens, and width of the model.
SHAPES = {
    "a text, MiniLM": (17, 384),
    "32 texts, MiniLM": (544, 384),
    "8 x 128 tokens, BERT-base": (1_024, 768),
    "32 x 128 tokens, 256 wide": (4_096, 256),
}
WAYS = ("apart", "together")
_SECONDS = 0.3  # seconds for each way in a round

Function = Callable[..., Sequence[Any]]


def measured(seconds: float) -> Callable[[], dict[str, float]]:
    """Prepare a contender that measures all shapes, with and without gradients.

    Args:
        seconds: approximate time for each shape and way in a round.

    Returns:
        A function that runs one round and returns microseconds by "shape/way" and
        "shape/way, gradients".
    """
    runs = {
        f"{shape}/{way}{kind}": run
        for shape, sizes in SHAPES.items()
        for way, (function, arguments) in _ways(*sizes).items()
        for kind, run in zip(("", ", gradients"), _compiled(function, arguments), strict=True)
    }
    for run in runs.values():
        run()

    def round_() -> dict[str, float]:
        return {name: _microseconds(run, seconds) for name, run in runs.items()}

    return round_


def _ways(rows: int, width: int) -> dict[str, tuple[Function, list[np.ndarray]]]:
    """Return the functions of both ways with their arguments: inputs, kernels and biases."""
    from keras import activations, ops

    from bert_keras import kernels

    draw = np.random.default_rng(0)
    x, kernel = (draw.standard_normal((size, 3 * width), np.float32) for size in (rows, width))
    x, bias = x[:, :width].copy(), kernel[0].copy()

    def apart(x: Any, *parameters: Any) -> list[Any]:
        pairs = zip(parameters[:3], parameters[3:], strict=True)
        return [kernels.affine(x, kernel, bias, activations.linear) for kernel, bias in pairs]

    def together(x: Any, kernel: Any, bias: Any) -> Sequence[Any]:
        return ops.split(kernels.affine(x, kernel, bias, activations.linear), 3, axis=-1)

    parts = [part.copy() for whole in (kernel, bias) for part in np.split(whole, 3, axis=-1)]
    return {"apart": (apart, [x, *parts]), "together": (together, [x, kernel, bias])}


def _compiled(
    function: Function, arguments: list[np.ndarray]
) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Compile a function, and return a call of it and a call that computes all gradients."""
    import keras

    return {"jax": _jax, "tensorflow": _tensorflow, "torch": _torch}[keras.backend.backend()](
        function, arguments
    )


def _jax(function: Function, arguments: list[np.ndarray]) -> Any:
    import jax

    arrays = [*map(jax.numpy.asarray, arguments)]
    forward = jax.jit(function)
    backward = jax.jit(jax.grad(lambda *x: sum(y.sum() for y in function(*x)), range(len(arrays))))
    return tuple(lambda f=f: jax.block_until_ready(f(*arrays)) for f in (forward, backward))


def _tensorflow(function: Function, arguments: list[np.ndarray]) -> Any:
    import tensorflow as tf

    tensors = [*map(tf.constant, arguments)]

    def gradients(*x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = function(*x)
        return tape.gradient(outputs, x)

    forward, backward = tf.function(function), tf.function(gradients)
    return tuple(lambda f=f: f(*tensors)[0][0, 0].numpy() for f in (forward, backward))


def _torch(function: Function, arguments: list[np.ndarray]) -> Any:
    import torch

    tensors = [torch.tensor(argument, requires_grad=True) for argument in arguments]

    def forward() -> None:
        with torch.inference_mode():
            function(*tensors)

    def backward() -> None:
        torch.autograd.grad(torch.stack([y.sum() for y in function(*tensors)]).sum(), tensors)

    return forward, backward


def _microseconds(run: Callable[[], Any], seconds: float) -> float:
    begin, count = time.perf_counter(), 0
    while (spent := time.perf_counter() - begin) < seconds or not count:
        run()
        count += 1
    return 1e6 * spent / count


def show(summaries: dict[str, Any], console: Console) -> None:
    """Print a table with both ways and the speed-up of one product, by backend and shape."""
    table = Table(title="Three products, one product: microseconds")
    for heading in ("backend", "rows of"):
        table.add_column(heading)
    for heading in ("apart", "together", "gain", "apart, gradients", "together, gradients", "gain"):
        table.add_column(heading, justify="right")
    for backend, figures in summaries.items():
        for shape in SHAPES:
            cells = []
            for kind in ("", ", gradients"):
                apart, together = (figures[f"{shape}/{way}{kind}"]["median"] for way in WAYS)
                cells += [f"{apart:,.0f}", f"{together:,.0f}", f"{apart / together:.2f}"]
            table.add_row(backend, shape, *cells)
    console.print(table)


def main() -> None:
    """Measure all backends, print a table, and write a report."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.projections", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one round, short ones")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    options, console = parser.parse_args(), Console()
    rounds = 1 if options.quick else options.rounds
    arguments = {"seconds": 0.05 if options.quick else _SECONDS}
    every = [
        Contender(name, "benchmarks.projections:measured", arguments, name) for name in BACKENDS
    ]
    summaries = summary(contest(every, rounds, console))
    show(summaries, console)
    command = report.command("projections", sys.argv[1:])
    report.write(options.out, command, PACKAGES, results=summaries)


if __name__ == "__main__":
    main()
