"""Losses in chunks of rows equal the loss over all rows, with first and second derivatives."""

from __future__ import annotations

from typing import Any

import pytest

CLASSES = 7


@pytest.fixture
def torch() -> Any:
    module = pytest.importorskip("torch")
    module.manual_seed(0)
    return module


@pytest.fixture(params=[1, 2 * CLASSES, 2**20], ids=["one row", "two rows", "all"])
def losses(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the loss function for one size of the chunks."""
    from bert_keras.kernels import torch_kernels

    monkeypatch.setattr(torch_kernels, "_AT_ONCE", request.param)
    return torch_kernels.TokenLosses.apply


def _given(torch: Any, rows: int = 5) -> tuple[Any, Any]:
    logits = (5.0 * torch.randn(rows, CLASSES)).requires_grad_()
    return logits, torch.randint(0, CLASSES, (rows,))


def _plain(torch: Any, logits: Any, labels: Any) -> Any:
    return torch.nn.functional.cross_entropy(logits, labels, reduction="none")


def test_losses_gradients_and_theirs(torch: Any, losses: Any) -> None:
    logits, labels = _given(torch)
    weights, others = torch.randn(5), torch.randn(5, CLASSES)
    found = []
    for function in (losses, lambda *given: _plain(torch, *given)):
        answer = function(logits, labels)
        (first,) = torch.autograd.grad((answer * weights).sum(), logits, create_graph=True)
        (second,) = torch.autograd.grad((first * others).sum(), logits)
        found.append((answer, first, second))
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=0)


def test_a_label_of_minus_100_counts_for_nothing(torch: Any, losses: Any) -> None:
    logits, labels = _given(torch)
    labels[1] = -100
    found = losses(logits, labels)
    (gradient,) = torch.autograd.grad(found.sum(), logits)
    expected = _plain(torch, logits, labels)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    (theirs,) = torch.autograd.grad(expected.sum(), logits)
    torch.testing.assert_close(gradient, theirs, atol=1e-5, rtol=0)


def test_of_each_example_by_vmap(torch: Any, losses: Any) -> None:
    """`torch.func.vmap` gives the gradient of each example."""
    logits, labels = torch.randn(3, 5, CLASSES), torch.randint(0, CLASSES, (3, 5))

    def gradient(function: Any) -> Any:
        return torch.func.vmap(torch.func.grad(lambda *given: function(*given).square().sum()))

    mine = gradient(losses)(logits, labels)
    theirs = gradient(lambda *given: _plain(torch, *given))(logits, labels)
    torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=0)


def test_of_several_labels_and_of_several_gradients(torch: Any, losses: Any) -> None:
    """`vmap` works over the labels, and batched gradients are accepted."""
    logits, labels = _given(torch)
    many = torch.stack([labels, (labels + 1) % CLASSES])
    by_labels = torch.func.vmap(
        torch.func.grad(lambda logits, labels: losses(logits, labels).sum()), in_dims=(None, 0)
    )(logits.detach(), many)
    expected = [torch.autograd.grad(_plain(torch, logits, each).sum(), logits)[0] for each in many]
    torch.testing.assert_close(by_labels, torch.stack(expected), atol=1e-5, rtol=0)
    (rows,) = torch.autograd.grad(
        losses(logits, labels), logits, torch.eye(5), is_grads_batched=True
    )
    whole = torch.autograd.functional.jacobian(lambda x: _plain(torch, x, labels), logits)
    torch.testing.assert_close(rows, whole, atol=1e-5, rtol=0)
