"""Operations by kind, from the output of profilers and compilers."""

from __future__ import annotations

import keras
import pytest

from benchmarks import step_profilers
from benchmarks.step_profilers import (
    CLOCK,
    KINDS,
    LAYOUT,
    OPTIMIZER,
    PRODUCTS,
    RANDOM,
    REST,
    SUMS,
    kind_of,
    kinds_of_hlo,
)

_TINY = {"layers": 1, "width": 16, "heads": 2, "batch": 2, "length": 16, "steps": 1}
_PROGRAM = """HloModule jit_train_step

%fused.1 (p: f32[4,4]) -> f32[4,4] {
  %p = f32[4,4]{1,0} parameter(0)
  ROOT %dot.2 = f32[4,4]{1,0} dot(%p, %p), metadata={op_name="jit(step)/block_0/dot_general"}
}

%fused.2 (p.1: f32[4,4]) -> f32[4] {
  %p.1 = f32[4,4]{1,0} parameter(0)
  ROOT %reduce.3 = f32[4]{0} reduce(%p.1), to_apply=%sum
}

ENTRY %main (a: f32[4,4]) -> f32[4] {
  %a = f32[4,4]{1,0} parameter(0)
  %ynn_fusion.1 = f32[4,4]{1,0} fusion(%a), kind=kCustom, calls=%fused.1
  %ynn_fusion.2 = f32[4]{0} fusion(%ynn_fusion.1), kind=kCustom, calls=%fused.2
  %copy.7 = f32[4,4]{0,1} copy(%a)
  %xor.1 = u32[4]{0} xor(%a, %a)
  %add.9 = f32[4]{0} add(%a, %a), metadata={op_name="jit(step)/adam_w/add"}
  ROOT %exp.1 = f32[4]{0} exponential(%add.9)
}
"""


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        ("MatMul", PRODUCTS),
        ("BatchMatMulV2", PRODUCTS),
        ("aten::addmm", PRODUCTS),
        ("mkldnn::_linear_pointwise", PRODUCTS),
        ("ResourceApplyAdam", OPTIMIZER),
        ("StatelessRandomUniformFullIntV2", RANDOM),
        ("aten::random_", RANDOM),
        ("BiasAddGrad", SUMS),
        ("aten::sum", SUMS),
        ("Transpose", LAYOUT),
        ("aten::copy_", LAYOUT),
        ("Mul", REST),
        ("aten::gelu", REST),
    ],
)
def test_kinds_of_operations(operation: str, kind: str) -> None:
    assert kind_of(operation) == kind


def test_kinds_of_fusions_are_of_what_is_in_them() -> None:
    found = kinds_of_hlo(_PROGRAM)
    names = ("ynn_fusion.1", "ynn_fusion.2", "copy.7", "xor.1", "add.9", "exp.1")
    assert [found[name] for name in names] == [PRODUCTS, SUMS, LAYOUT, RANDOM, OPTIMIZER, REST]


def test_a_step_is_profiled() -> None:
    backend = keras.backend.backend()
    if backend == "jax":
        pytest.skip("this backend's profile needs flags before it starts")
    figures = getattr(step_profilers, backend)("ours", _TINY)()
    assert set(figures) == {*KINDS, CLOCK}
    assert figures[CLOCK] > 0
    assert figures[PRODUCTS] > 0
    assert figures[OPTIMIZER] > 0
    assert all(0 <= value < 60_000 for value in figures.values())
