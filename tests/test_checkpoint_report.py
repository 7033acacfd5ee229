"""Reports about one checkpoint, and comparisons of two."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from bert_keras import (
    BertEncoder,
    MaskedLM,
    MultipleChoice,
    Pretrainer,
    load_checkpoint,
    save_checkpoint,
)
from bert_keras import checkpoint_report as report
from bert_keras.checkpoints import open_checkpoint
from bert_keras.errors import UsageError
from tests import contracts
from tests.contracts import TINY


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=200)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    task = contracts.as_trained(Pretrainer(BertEncoder(TINY)))
    return save_checkpoint(task, tmp_path_factory.mktemp("saved"))


def _text(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_checkpoint_is_described(saved: Path, console: Console) -> None:
    report.print_checkpoint(open_checkpoint(saved), console)
    text = _text(console)
    for part in ("Pretrainer", "hidden_size", "50 x 8", "nsp/dense/kernel", "embeddings/token"):
        assert part in text, part
    assert f"{load_checkpoint(saved).count_params():,}" in text
    assert "missing" not in text
    assert "not used" not in text
    assert text.splitlines()[:2] == ["family: bert", "unusual in it: nothing"]


def test_what_is_unusual_is_named(tmp_path: Path, console: Console) -> None:
    """The lines are whole, however narrow the console is."""
    config = TINY.replace(norm="rms", position_embedding="relative_key")
    save_checkpoint(BertEncoder(config), tmp_path / "encoder")
    console.width = 30
    report.print_checkpoint(open_checkpoint(tmp_path / "encoder"), console)
    assert _text(console).splitlines()[1] == (
        "unusual in it: position_embedding='relative_key' (usual: 'absolute'); norm='rms' "
        "(usual: 'layer'); norm_bias=False (usual: True)"
    )


def test_equal_models_have_no_difference(saved: Path, console: Console) -> None:
    models = load_checkpoint(saved), load_checkpoint(saved)
    assert report.print_comparison(*models, folder=saved, console=console) == 0.0
    assert "weights that differ" not in _text(console)


def test_a_weight_that_differs_is_named(saved: Path, console: Console) -> None:
    first, second = load_checkpoint(saved), load_checkpoint(saved)
    (bias,) = (w for w in second.weights if w.path == "nsp/dense/bias")
    bias.assign(bias + 0.25)
    assert report.print_comparison(first, second, folder=saved, console=console) == pytest.approx(
        0.25, abs=1e-6
    )
    assert "nsp/dense/bias" in _text(console)
    assert "mlm/bias" not in _text(console)


def test_choices_are_compared_too(console: Console, tmp_path: Path) -> None:
    task = contracts.as_trained(MultipleChoice(BertEncoder(TINY)))
    assert report.print_comparison(task, task, folder=tmp_path, console=console) == 0.0


def test_other_classes_are_not_compared(console: Console, tmp_path: Path) -> None:
    encoder = BertEncoder(TINY)
    with pytest.raises(UsageError, match="A BertEncoder and a MaskedLM cannot be compared"):
        report.print_comparison(encoder, MaskedLM(encoder), folder=tmp_path, console=console)
    other = BertEncoder(TINY.replace(num_segments=1))
    with pytest.raises(UsageError, match=r"different inputs|cannot be compared"):
        report.print_comparison(other, MaskedLM(encoder), folder=tmp_path, console=console)
