"""Facts of every report of a benchmark: date, machine, versions, command."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contest import Contender, machine
from bert_keras.file_io import write_text

# What of the environment changes a figure.
VARIABLES = ("KERAS_BACKEND", "XLA_FLAGS", "OMP_NUM_THREADS", "JAX_PLATFORMS")


def write(path: Path | None, command: str, packages: Iterable[str], **facts: Any) -> None:
    """Writes a report as JSON.

    Args:
        path: of the file; None to write none.
        command: that gave the figures.
        packages: whose versions matter.
        facts: JSON values by name: the figures.

    Raises:
        SystemExit: it cannot be written there; an earlier report stays as it was.
    """
    if path is not None:
        found = {"command": command, **circumstances(packages), **facts}
        try:
            write_text(path, json.dumps(found, indent=1) + "\n")
        except OSError as error:
            raise SystemExit(f"{path}: cannot be written: {error.strerror}.") from error


def circumstances(packages: Iterable[str]) -> dict[str, Any]:
    """Date, commit, environment, machine and versions; None for what is not installed."""
    return {
        "date": time.strftime("%Y-%m-%d"),
        "commit": _commit(),
        "environment": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "machine": machine.facts(),
        "versions": {name: _version(name) for name in packages},
    }


def command(program: str, arguments: Sequence[str]) -> str:
    """Return the arguments of a program, less the files that it wrote.

    Args:
        program: of benchmarks/.
        arguments: `sys.argv[1:]`, options before their values.
    """
    words = ["python", "-m", f"benchmarks.{program}"]
    before = ""
    for word in arguments:
        if not {before, word} & {"--out", "--plot"}:
            words.append(word)
        before = word
    return shlex.join(words)


def _commit() -> str | None:
    """The commit of this checkout, "-dirty" where files were changed; None outside of one."""
    asked = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        return subprocess.check_output(asked, stderr=subprocess.DEVNULL, text=True).strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


# === What a step must compute and hold, counted from a model's sizes, and how fast products can
# be.
# Sizes are those of `train_steppers.sizes_of`: layers L, width H, batch B, length T, vocabulary V,
# positions; and perhaps the inner width, which else is 4 H.


PEAK = "matrix products"
PRODUCT_SIZE = {"accelerator": 8192, "processor": 2048}
_INNER = 4  # widths of the feed-forward layer

Sizes = Mapping[str, int]


def forward_flops(sizes: Sizes, predictions: int = 0) -> int:
    """Floating-point operations of the matrix products of a forward pass over a batch.

    A product of [m, k] and [k, n] is m n k multiplications and as many additions: 2 m n k. For
    each token, in each layer:

    - query, key, value and output projection, H x H each: 4 * 2 H^2 = 8 H^2;
    - the feed-forward layer, H x 4H and 4H x H: 2 * 2 * 4 H^2 = 16 H^2;
    - its scores with all T tokens, and their vectors' sum, T x K in each of the N heads, N K = H:
      2 * 2 T H = 4 T H.

    Where P tokens of a row are predicted, nobody reads others of the last layer: of these it must
    compute keys and values, 4 H^2. For each predicted token the MLM head's dense layer, 2 H^2, and
    its scores of the vocabulary, 2 H V. So B ((L - 1) T (24 H^2 + 4 T H) + T 4 H^2 + P (20 H^2 +
    4 T H + 2 H^2 + 2 H V)); for the encoder alone B L T (24 H^2 + 4 T H). Norms, activations,
    softmax, dropout and the tables' rows are no matrix products; the pooler, 2 H^2 a row, is not
    counted.

    Args:
        sizes: the model's and the batch's.
        predictions: P, tokens of a row that are predicted; 0 for the encoder alone.
    """
    width, length = sizes["width"], sizes["length"]
    keys_and_values = 4 * width**2
    rest = 4 * width**2 + 4 * _inner(sizes) * width + 4 * length * width
    row = length * sizes["layers"] * (keys_and_values + rest)
    if predictions:
        head = 2 * width**2 + 2 * width * sizes["vocabulary"]
        row += predictions * (rest + head) - length * rest
    return sizes["batch"] * row


def training_flops(sizes: Sizes, predictions: int) -> int:
    """Likewise of a training step: forward, and backward, which is twice that.

    Each product x W has two in its backward pass, one for the gradient of x and one for that of W,
    of the same size as itself. What is computed again (gradient checkpointing) and what need not
    be (scores of the vocabulary and vectors of the last layer where nothing is predicted) are not
    useful: they are not counted.
    """
    return 3 * forward_flops(sizes, predictions)


def _inner(sizes: Sizes) -> int:
    return sizes.get("inner", _INNER * sizes["width"])


def weights(sizes: Sizes) -> int:
    """Numbers in a masked language model of these sizes: tables, blocks, pooler and tied head."""
    width, inner = sizes["width"], _inner(sizes)
    norm = 2 * width
    dense = width * width + width
    tables = (sizes["vocabulary"] + sizes["positions"] + 2) * width + norm
    block = 4 * dense + norm + (width * inner + inner) + (inner * width + width) + norm
    head = dense + norm + sizes["vocabulary"]
    return tables + sizes["layers"] * block + dense + head


def training_bytes(sizes: Sizes) -> int:
    """Weights, their gradients and Adam's two moments, in float32: what a step must hold."""
    return 4 * 4 * weights(sizes)


def peaks(dtype: str, backends: Iterable[str], size: int = 0) -> list[Contender]:
    """Contenders that multiply matrices, on these backends, in what this policy computes in."""
    kind = {"dtype": "bfloat16" if "bfloat16" in dtype else "float32", "size": size}
    return [
        Contender(f"{PEAK}, {backend}", f"{__name__}:products", kind, backend)
        for backend in backends
    ]


def peak_of(found: Mapping[str, Any]) -> float | None:
    """The best of their medians in a `summary`, FLOP/s; None where none was measured."""
    medians = [
        figures["flops_per_second"]["median"]
        for name, figures in found.items()
        if name.startswith(PEAK)
    ]
    return max(medians, default=None)


def products(dtype: str, size: int = 0) -> Callable[[], dict[str, float]]:
    """Matrix products, one after another, on the Keras backend's first device.

    Args:
        dtype: "float32" or "bfloat16".
        size: of the square matrices; 0 for that of `PRODUCT_SIZE`.

    Returns:
        A round of a contender: {"flops_per_second"}, of normal random numbers (zeros would be
        faster: they take less power). Each product is of the last one's result, scaled so that
        its numbers stay as large.
    """
    chain = {"jax": _jax, "tensorflow": _tensorflow, "torch": _torch}[_backend()]
    run, size = chain(dtype, size)
    run(2)
    begin = time.perf_counter()
    run(2)
    # About a fifth of a second: far longer than it takes to start one.
    repeats = min(1000, max(2, round(0.4 / (time.perf_counter() - begin))))

    def round_() -> dict[str, float]:
        begin = time.perf_counter()
        run(repeats)
        return {"flops_per_second": repeats * 2 * size**3 / (time.perf_counter() - begin)}

    return round_


def _backend() -> str:
    return os.environ.get("KERAS_BACKEND", "tensorflow")


_Chain = tuple[Callable[[int], None], int]


def _numbers(size: int, is_accelerated: bool) -> tuple[np.ndarray, np.ndarray]:
    size = size or PRODUCT_SIZE["accelerator" if is_accelerated else "processor"]
    draw = np.random.default_rng(0)
    first, second = draw.standard_normal((2, size, size), np.float32)
    return first, second * size**-0.5


def _jax(dtype: str, size: int) -> _Chain:
    import jax

    values = _numbers(size, jax.default_backend() != "cpu")
    first, second = (jax.numpy.asarray(value, dtype) for value in values)
    product = jax.jit(jax.numpy.matmul)

    def run(repeats: int) -> None:
        x = first
        for _ in range(repeats):
            x = product(x, second)
        x.block_until_ready()

    return run, len(first)


def _torch(dtype: str, size: int) -> _Chain:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    kind: Any = getattr(torch, dtype)
    values = _numbers(size, device != "cpu")
    first, second = (torch.tensor(value).to(device, kind) for value in values)

    def run(repeats: int) -> None:
        x = first
        with torch.inference_mode():
            for _ in range(repeats):
                x = x @ second
            x[0, 0].item()  # waits for all

    return run, len(first)


def _tensorflow(dtype: str, size: int) -> _Chain:
    import tensorflow as tf

    values = _numbers(size, bool(tf.config.list_physical_devices("GPU")))
    first, second = (tf.cast(value, dtype) for value in values)

    def run(repeats: int) -> None:
        x = first
        for _ in range(repeats):
            x = tf.matmul(x, second)
        x[0, 0].numpy()  # waits for all

    return run, len(first)
