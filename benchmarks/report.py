"""Reports of benchmarks: date, machine, versions and command, FLOPs, and the measured peak."""

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

# Environment variables that change the figures.
VARIABLES = ("KERAS_BACKEND", "XLA_FLAGS", "OMP_NUM_THREADS", "OMP_WAIT_POLICY", "JAX_PLATFORMS")


def write(path: Path | None, command: str, packages: Iterable[str], **facts: Any) -> None:
    """Write a report as JSON.

    Args:
        path: path of the JSON file; None to write no report.
        command: command line that gave the figures.
        packages: packages whose versions are recorded.
        facts: figures and other JSON values, by name.

    Raises:
        SystemExit: the file cannot be written. An earlier report stays unchanged.
    """
    if path is not None:
        content = {"command": command, **circumstances(packages), **facts}
        try:
            write_text(path, json.dumps(content, indent=1) + "\n")
        except OSError as error:
            raise SystemExit(f"{path}: cannot be written: {error.strerror}.") from error


def circumstances(packages: Iterable[str]) -> dict[str, Any]:
    """Return date, commit, environment, machine and package versions.

    The version of a package that is not installed is None.
    """
    return {
        "date": time.strftime("%Y-%m-%d"),
        "commit": _commit(),
        "environment": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "machine": machine.facts(),
        "versions": {name: _version(name) for name in packages},
    }


def command(program: str, arguments: Sequence[str]) -> str:
    """Return the command line of a benchmark without `--out` and `--plot` and their files.

    Args:
        program: name of a module of `benchmarks`.
        arguments: `sys.argv[1:]`, with each option before its values.
    """
    words = ["python", "-m", f"benchmarks.{program}"]
    before = ""
    for word in arguments:
        if not {before, word} & {"--out", "--plot"}:
            words.append(word)
        before = word
    return shlex.join(words)


def _commit() -> str | None:
    """Return the commit of this checkout, or None outside a git checkout.

    "-dirty" at its end means that tracked files were changed.
    """
    words = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        return subprocess.check_output(words, stderr=subprocess.DEVNULL, text=True).strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


# === FLOPs and memory of a step, counted from the sizes of the model, and the measured peak ===
# Sizes are a dict as from `train_steppers.sizes_of`: layers L, width H, batch B, length T,
# vocabulary V and positions. The optional key "inner" is the width of the feed-forward layer, by
# default 4 H.


PEAK = "matrix products"
PRODUCT_SIZE = {"accelerator": 8192, "processor": 2048}
_INNER = 4  # inner width of the feed-forward layer, in widths of the model

Sizes = Mapping[str, int]


def forward_flops(sizes: Sizes, predictions: int = 0) -> int:
    """Return the floating-point operations of the matrix products of a forward pass over a batch.

    A product of [m, k] and [k, n] has m n k multiplications and as many additions: 2 m n k FLOPs.
    Each token needs in each layer:

    - query, key, value and output projection, H x H each: 4 * 2 H^2 = 8 H^2;
    - the feed-forward layer, H x 4H and 4H x H: 2 * 2 * 4 H^2 = 16 H^2;
    - attention scores with all T tokens and the weighted sum of their values: 2 * 2 T H = 4 T H.
      Each is T x K in each of the N heads, and N K = H.

    The encoder alone needs B L T (24 H^2 + 4 T H). If P tokens of a row are predicted, the last
    layer needs only keys and values, 4 H^2, for the other tokens. Each predicted token also needs
    the dense layer of the MLM head, 2 H^2, and its logits, 2 H V. The sum is
    B ((L - 1) T (24 H^2 + 4 T H) + T 4 H^2 + P (20 H^2 + 4 T H + 2 H^2 + 2 H V)).

    Normalisation, activations, softmax, dropout and embedding look-ups are no matrix products, and
    are not counted. The pooler, 2 H^2 a row, is not counted either.

    Args:
        sizes: sizes of the model and the batch.
        predictions: P, the number of predicted tokens of a row; 0 for the encoder alone.
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
    """Return the floating-point operations of the matrix products of a training step.

    The backward pass needs twice the operations of the forward pass. For each product x W it
    computes two products of the same size: the gradient of x and the gradient of W. Operations
    that gradient checkpointing repeats are not counted. Neither are logits and last-layer vectors
    of tokens that are not predicted, because a step does not need them.

    Args:
        sizes: sizes of the model and the batch.
        predictions: number of predicted tokens of a row.
    """
    return 3 * forward_flops(sizes, predictions)


def _inner(sizes: Sizes) -> int:
    return sizes.get("inner", _INNER * sizes["width"])


def weights(sizes: Sizes) -> int:
    """Return the number of weights of a masked language model of these sizes.

    Embeddings, blocks, pooler and MLM head are counted. The output layer of the head is tied to
    the token embeddings.
    """
    width, inner = sizes["width"], _inner(sizes)
    norm = 2 * width
    dense = width * width + width
    tables = (sizes["vocabulary"] + sizes["positions"] + 2) * width + norm
    block = 4 * dense + norm + (width * inner + inner) + (inner * width + width) + norm
    head = dense + norm + sizes["vocabulary"]
    return tables + sizes["layers"] * block + dense + head


def training_bytes(sizes: Sizes) -> int:
    """Return the bytes of weights, gradients and Adam's two moments in float32."""
    return 4 * 4 * weights(sizes)


def peaks(dtype: str, backends: Iterable[str], size: int = 0) -> list[Contender]:
    """Return contenders that multiply matrices, one for each backend.

    Args:
        dtype: a Keras dtype policy, whose compute dtype the matrices have.
        backends: Keras backends.
        size: rows and columns of the matrices; 0 for the size in `PRODUCT_SIZE`.
    """
    kind = {"dtype": "bfloat16" if "bfloat16" in dtype else "float32", "size": size}
    return [
        Contender(f"{PEAK}, {backend}", f"{__name__}:products", kind, backend)
        for backend in backends
    ]


def peak_of(summaries: Mapping[str, Any]) -> float | None:
    """Return the best median FLOP/s of the matrix products in a `contest.summary`.

    Returns:
        FLOP/s; None if no matrix products were measured.
    """
    medians = [
        figures["flops_per_second"]["median"]
        for name, figures in summaries.items()
        if name.startswith(PEAK)
    ]
    return max(medians, default=None)


def products(dtype: str, size: int = 0) -> Callable[[], dict[str, float]]:
    """Prepare a contender that multiplies matrices on the first device of the Keras backend.

    The matrices hold normal random numbers, because products of zeros take less power and are
    faster. Each product takes the result of the one before. The second factor is scaled, so that
    the magnitude of the numbers stays the same.

    Args:
        dtype: "float32" or "bfloat16".
        size: rows and columns of the matrices; 0 for the size in `PRODUCT_SIZE`.

    Returns:
        A function that runs one round and returns {"flops_per_second"}.
    """
    chain = {"jax": _jax, "tensorflow": _tensorflow, "torch": _torch}[_backend()]
    run, size = chain(dtype, size)
    run(2)
    begin = time.perf_counter()
    run(2)
    # A round takes about a fifth of a second. The cost of starting a product does not count then.
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
            x[0, 0].item()  # waits until all products are computed

    return run, len(first)


def _tensorflow(dtype: str, size: int) -> _Chain:
    import tensorflow as tf

    values = _numbers(size, bool(tf.config.list_physical_devices("GPU")))
    first, second = (tf.cast(value, dtype) for value in values)

    def run(repeats: int) -> None:
        x = first
        for _ in range(repeats):
            x = tf.matmul(x, second)
        x[0, 0].numpy()  # waits until all products are computed

    return run, len(first)
