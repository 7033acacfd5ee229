"""The JSON files written for sentence-transformers.

test_sentence_transformers.py opens them with that library.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bert_keras import (
    BertEncoder,
    SentenceEncoder,
    SequenceClassifier,
    load_checkpoint,
    save_checkpoint,
)
from bert_keras.checkpoints import sentence_transformers, sentence_transformers_writer
from bert_keras.errors import UsageError
from bert_keras.layers.pooling import ACTIVATIONS, POOLINGS
from tests import contracts
from tests.contracts import TINY

_PROMPTS = {"a": "b "}


def _read(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text())


@pytest.mark.parametrize(
    ("pooling", "is_old"),
    [
        *((name, True) for name in POOLINGS),
        (["cls", "mean"], True),
        (["mean", "cls"], False),
        (["mean", "mean"], False),
    ],
)
def test_poolings_are_written_as_the_oldest_versions_read_them(
    pooling: Any, is_old: bool, tmp_path: Path
) -> None:
    options = {"pooling": pooling, "normalize": False}
    arguments = ("SentenceEncoder", options, [], 8, 12)
    assert sentence_transformers_writer.write(tmp_path, *arguments) == {}
    values = _read(tmp_path, "1_Pooling/config.json")
    assert ("pooling_mode" not in values) == is_old
    assert sentence_transformers.read(tmp_path).options == options


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_come_back(activation: str, tmp_path: Path) -> None:
    task = SequenceClassifier(BertEncoder(TINY), 1, activation=activation)
    contracts.as_trained(task).save_to_preset(tmp_path)
    assert sentence_transformers.pair_options(tmp_path) == {"activation": activation}
    # Versions before 6 read the activation from config.json.
    for name in ("modules.json", sentence_transformers.CONFIG):
        (tmp_path / name).unlink()
    assert sentence_transformers.pair_options(tmp_path) == {"activation": activation}
    dense = [{"units": 2, "activation": activation}]
    task = SentenceEncoder(BertEncoder(TINY), dense=dense)
    contracts.as_trained(task).save_to_preset(tmp_path)
    assert sentence_transformers.read(tmp_path).options["dense"] == task.options["dense"]


def test_a_classifier_without_activation_has_no_modules(tmp_path: Path) -> None:
    SequenceClassifier(BertEncoder(TINY), 2).save_to_preset(tmp_path)
    assert not sentence_transformers.has_settings(tmp_path)
    assert "sentence_transformers" not in _read(tmp_path, "config.json")
    assert sentence_transformers.pair_options(tmp_path) == {}


@pytest.mark.parametrize(
    "options",
    [
        {"pooling": "lasttoken"},
        {"pooling": ["mean", "cls"]},
        {"dense": [{"units": 2}]},
        {"truncate_dim": 2},
        {"include_prompt": False},
    ],
)
def test_what_another_format_cannot_compute_is_refused(
    options: dict[str, Any], tmp_path: Path
) -> None:
    task = SentenceEncoder(BertEncoder(TINY), **options)
    with pytest.raises(UsageError, match=f"no place for {next(iter(options))}"):
        save_checkpoint(task, tmp_path, "keras_hub")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "make",
    [
        lambda e: SentenceEncoder(e, similarity="dot", prompts=_PROMPTS, default_prompt_name="a"),
        lambda e: SequenceClassifier(e, 1, activation="tanh", prompts=_PROMPTS),
    ],
)
def test_what_another_format_need_not_compute_is_kept_there(make: Any, tmp_path: Path) -> None:
    """KerasHub's format keeps options that change no outputs."""
    task = contracts.as_trained(make(BertEncoder(TINY.replace(activation="gelu_tanh"))))
    save_checkpoint(task, tmp_path, "keras_hub")
    options = load_checkpoint(tmp_path).options
    told = {name: value for name, value in task.options.items() if value is not None}
    assert {name: options[name] for name in told} == told
