"""`linear` by oneDNN and by MKL equals PyTorch's, with equal first and second derivatives."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

SHAPES = ((3, 5, 16), (5, 16), (1, 1, 16), (0, 16), (2, 0, 16))


@pytest.fixture
def torch() -> Any:
    module = pytest.importorskip("torch")
    module.manual_seed(0)
    return module


@pytest.fixture(params=["onednn", "mkl"])
def linear(torch: Any, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return `linear`, as it computes on processors of each kind."""
    from bert_keras.kernels import torch_kernels

    product = torch.ops.mkldnn._linear_pointwise if request.param == "onednn" else None
    monkeypatch.setattr(torch_kernels, "_ONEDNN", product)
    return torch_kernels.linear


@pytest.mark.parametrize(
    ("cpuinfo", "processor", "has_mkl", "expected"),
    [
        ("vendor_id\t: GenuineIntel\n", "", True, True),
        ("vendor_id\t: GenuineIntel\n", "", False, False),
        ("vendor_id\t: AuthenticAMD\n", "", True, False),
        (None, "Intel64 Family 6 Model 143 Stepping 8, GenuineIntel", True, True),
        (None, "AMD64 Family 25 Model 17 Stepping 1, AuthenticAMD", True, False),
        (None, "arm", False, False),
    ],
)
def test_the_processor_is_told(
    torch: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    cpuinfo: str | None,
    processor: str,
    has_mkl: bool,
    expected: bool,
) -> None:
    from bert_keras.kernels import torch_kernels

    path = tmp_path / "cpuinfo"
    if cpuinfo is not None:
        path.write_text(cpuinfo, encoding="utf-8")
    monkeypatch.setattr(torch_kernels, "Path", lambda _: path)
    monkeypatch.setattr(torch_kernels.platform, "processor", lambda: processor)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: has_mkl)
    assert torch_kernels._has_fast_mkl() is expected


def _weights(torch: Any, *, transposed: bool) -> tuple[Any, Any]:
    """Return a leaf tensor and the weight of shape [7, 16] that is made from it."""
    leaf = torch.randn((16, 7) if transposed else (7, 16), requires_grad=True)
    return leaf, leaf.t() if transposed else leaf


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("gelu", [False, True])
def test_outputs_and_gradients(
    torch: Any, linear: Any, shape: tuple[int, ...], transposed: bool, with_bias: bool, gelu: bool
) -> None:
    x = torch.randn(shape, requires_grad=True)
    leaf, weight = _weights(torch, transposed=transposed)
    bias = torch.randn(7, requires_grad=True) if with_bias else None
    leaves = [each for each in (x, leaf, bias) if each is not None]

    def expected(x: Any, weight: Any, bias: Any) -> Any:
        found = torch.nn.functional.linear(x, weight, bias)
        return torch.nn.functional.gelu(found) if gelu else found

    with torch.no_grad():
        alone = linear(x, weight, bias, gelu=gelu)
    ours, theirs = linear(x, weight, bias, gelu=gelu), expected(x, weight, bias)
    scales = torch.randn(theirs.shape)
    for found in (alone, ours):
        torch.testing.assert_close(found, theirs, atol=1e-5, rtol=0)
    mine, same = (torch.autograd.grad((each * scales).sum(), leaves) for each in (ours, theirs))
    for one, other in zip(mine, same, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=0)


def test_of_a_slice(torch: Any, linear: Any) -> None:
    """The product accepts inputs that are not contiguous."""
    x, (_, weight) = torch.randn(4, 6, 16), _weights(torch, transposed=True)
    for part in (x[:, :1], x.transpose(0, 1), x[:, ::2], x.expand(4, 6, 16)):
        found = linear(part, weight.detach())
        torch.testing.assert_close(found, part @ weight.detach().t(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("transposed", [False, True])
def test_a_gradient_lies_as_its_weight(torch: Any, linear: Any, transposed: bool) -> None:
    """A gradient has the memory layout of its weight, so that the optimizer need not copy it."""
    leaf, weight = _weights(torch, transposed=transposed)
    linear(torch.randn(3, 5, 16), weight).sum().backward()
    assert leaf.grad.stride() == leaf.stride()


def test_gradients_of_gradients(torch: Any, linear: Any) -> None:
    x, (leaf, weight) = torch.randn(5, 16, requires_grad=True), _weights(torch, transposed=True)
    bias = torch.randn(7, requires_grad=True)

    def second(function: Any) -> tuple[Any, ...]:
        loss = function(x, weight, bias).tanh().sum()
        first = torch.autograd.grad(loss, (x, leaf), create_graph=True)
        return torch.autograd.grad(sum(each.square().sum() for each in first), (x, leaf))

    for one, other in zip(second(linear), second(torch.nn.functional.linear), strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-5)


def test_gradients_as_a_function(torch: Any, linear: Any) -> None:
    x, weight = torch.randn(5, 16), torch.randn(7, 16)
    mine, same = (
        torch.func.grad(lambda weight, product=product: product(x, weight).sin().sum())(weight)
        for product in (linear, torch.nn.functional.linear)
    )
    torch.testing.assert_close(mine, same, atol=1e-5, rtol=0)


def test_gradients_of_each_example(torch: Any, linear: Any) -> None:
    x, weight = torch.randn(5, 3, 16), torch.randn(7, 16)

    def of_each(product: Any) -> Any:
        gradient = torch.func.grad(lambda weight, row: product(row, weight).sin().sum())
        return torch.func.vmap(gradient, in_dims=(None, 0))(weight, x)

    with warnings.catch_warnings():
        # `torch.func.vmap` warns that it runs the samples one by one.
        warnings.filterwarnings("ignore", "There is a performance drop")
        mine = of_each(linear)
    torch.testing.assert_close(mine, of_each(torch.nn.functional.linear), atol=1e-5, rtol=0)


def test_what_is_frozen_has_no_gradient(torch: Any, linear: Any) -> None:
    x, bias = torch.randn(5, 16), torch.randn(7, requires_grad=True)
    _, weight = _weights(torch, transposed=True)
    linear(x, weight.detach(), bias).sum().backward()
    assert bias.grad.tolist() == [5.0] * 7


def test_of_doubles_and_halves(torch: Any, linear: Any) -> None:
    """The product keeps float64 and bfloat16."""
    for dtype in (torch.float64, torch.bfloat16):
        x, weight = torch.ones(2, 16, dtype=dtype), torch.ones(7, 16, dtype=dtype)
        assert linear(x, weight, gelu=True).dtype == dtype


def test_a_traced_program_has_pytorchs_product(torch: Any, linear: Any) -> None:
    """An exported program contains PyTorch's own product, so that it does not need oneDNN."""

    class Program(torch.nn.Module):
        def forward(self, x: Any, weight: Any) -> Any:
            return linear(x, weight, gelu=True)

    program = torch.export.export(Program(), (torch.ones(2, 16), torch.ones(7, 16)))
    assert "mkldnn" not in str(program.graph)
    assert "linear" in str(program.graph)
