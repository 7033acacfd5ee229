"""Contenders of the training step benchmark."""

from __future__ import annotations

from benchmarks.train_step import OURS, contenders


def test_variants_are_ours_alone() -> None:
    usual = {each.name for each in contenders("small", "float32")}
    found = {each.name: each for each in contenders("small", "float32", variants=True)}
    more = found.keys() - usual
    assert usual < found.keys()
    assert all(name.startswith(OURS) for name in more)
    for backend in ("tensorflow", "jax"):  # PyTorch has no such variant
        variant = found[f"{OURS}, {backend}, steps_per_execution"]
        assert variant.backend == backend
        plain = found[f"{OURS}, {backend}"].arguments
        assert variant.arguments == {**plain, "steps_per_execution": 3}
    assert {name for name in more if "jit" in name} == {
        f"{OURS}, {backend}, jit_compile" for backend in ("tensorflow", "torch")
    }
