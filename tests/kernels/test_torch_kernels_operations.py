"""PyTorch's kernels in cases of their own.

test_kernels.py compares them with Keras's operations.
"""

from __future__ import annotations

import pytest
import torch

from bert_keras.kernels import torch_kernels


def test_dropout_of_a_shape_alone() -> None:
    """Dropout works on the meta device, which Keras uses to infer shapes."""
    x = torch.ones((2, 3), device="meta")
    assert torch_kernels.dropped(x, 0.5, torch.tensor([1, 2], device="meta")).shape == (2, 3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_dropout_keeps_the_dtype(dtype: torch.dtype) -> None:
    dropped = torch_kernels.dropped(torch.ones((50, 40), dtype=dtype), 0.5, torch.tensor([1, 2]))
    assert dropped.dtype == dtype
    assert set(dropped.float().unique().tolist()) == {0.0, 2.0}


def test_heads_may_be_views() -> None:
    """Attention of heads that are views into one tensor equals attention of contiguous copies."""
    heads = torch.randn((2, 6, 3, 2, 8), generator=torch.Generator().manual_seed(1)).unbind(2)
    mask = torch.ones((2, 1, 1, 6), dtype=torch.bool)
    query, key, value = heads
    torch.testing.assert_close(
        torch_kernels.attention(query, key, value, None, mask),
        torch_kernels.attention(
            query.contiguous(), key.contiguous(), value.contiguous(), None, mask
        ),
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU's kernels: the platform has others")
def test_the_kernel_of_attention_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    told = torch_kernels.attention_kernel
    assert told("float32", False).endswith("(flash)")
    assert "no fused kernel takes a learned bias of float32 on cpu" in told("float32", True)
    # If a build of PyTorch lacks the first kernel, the next one of the table is tried.
    flash, efficient, _ = torch_kernels._FUSED
    monkeypatch.setattr(torch_kernels, "_FUSED", {efficient: "the memory-efficient one"})
    assert "no fused kernel takes a mask of float32 on cpu" in told("float32", False)
    monkeypatch.setattr(torch_kernels, "_FUSED", {efficient: "none", flash: "flash"})
    assert told("float32", False).endswith("(flash)")
