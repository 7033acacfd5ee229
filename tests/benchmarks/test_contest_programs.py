"""Every contender's function accepts the arguments of its contest."""

from __future__ import annotations

import importlib
import inspect

import pytest

from benchmarks import gpu, long_sequences, memory, train_step
from benchmarks.contest import Contender, contenders
from benchmarks.train_steppers import at_length

EVERY: dict[str, list[Contender]] = {
    "train_step": train_step.contenders("small", "float32"),
    "memory": [
        each
        for mode in memory.OPTIONS
        for members in memory.programs(mode, at_length("small", 512)).values()
        for each in members
    ],
    "long_sequences": [
        each for mode in long_sequences.MODES for each in long_sequences.programs(mode, 8192)
    ],
    "gpu": [
        each
        for mode in ("training", "inference")
        for each in gpu.programs(mode, at_length(gpu.SIZES["base"], 512), on_gpu=True)
    ],
}


@pytest.mark.parametrize("benchmark", EVERY)
def test_functions_take_their_arguments(benchmark: str) -> None:
    for contender in EVERY[benchmark]:
        module, _, name = contender.function.partition(":")
        function = getattr(importlib.import_module(module), name)
        inspect.signature(function).bind(**contender.arguments)


def test_names_say_what_differs() -> None:
    names = [each.name for each in contenders("training", {"batch": 1}, checkpointed=True)]
    ours = [f"bert_keras, {backend}" for backend in ("tensorflow", "jax", "torch")]
    assert names == [*ours, "transformers"]
    found = contenders("inference", {"batch": 1}, option="mixed_bfloat16")
    assert len({each.name for each in found}) == 7
    assert all(each.name.endswith(", mixed_bfloat16") for each in found)
    assert found[-1].backend == ""


def test_tokens_of_a_batch_are_constant() -> None:
    for length in long_sequences.LENGTHS:
        sizes = at_length(long_sequences.SIZES, length)
        assert sizes["batch"] * sizes["length"] == 8192
    assert at_length("small", 100_000)["batch"] == 1
