"""The code of a model card runs in its folder, with each library that the card names."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bert_keras import (
    BertEncoder,
    ElectraPretrainer,
    MaskedLM,
    Predictor,
    Pretrainer,
    SequenceClassifier,
)
from bert_keras.checkpoints import model_card_code
from bert_keras.checkpoints.model_card import CARD
from bert_keras.inference.base import PredictorConfig
from tests.contracts import TINY
from tests.inference.conftest import TASKS, task, tokenizer

__all__ = ["task", "tokenizer"]  # fixtures

LIBRARIES = {
    **dict.fromkeys(("labels", "several", "numbers", "tags", "answers"), "transformers"),
    **dict.fromkeys(("choices", "masks", "pretraining", "encoder"), "transformers"),
    **dict.fromkeys(("vectors", "scores"), "sentence_transformers"),
    **dict.fromkeys(("linked", "pairs", "replaced"), ""),
}
MORE: dict[str, Callable[[BertEncoder], Any]] = {
    "masks": MaskedLM,
    "pretraining": Pretrainer,
    "scores": lambda encoder: SequenceClassifier(encoder, 1, activation="sigmoid"),
    "encoder": lambda encoder: encoder,
}
SIZES = TINY.replace(vocab_size=300, max_positions=32)


def _model(kind: str, task: Callable[[str], Any]) -> Any:
    """Return a model of a kind."""
    if kind == "replaced":
        encoder = BertEncoder(SIZES.replace(family="electra", pooler=False))
        return ElectraPretrainer(encoder)
    return MORE[kind](BertEncoder(SIZES)) if kind in MORE else task(kind)


def test_all_kinds_are_tested() -> None:
    assert set(LIBRARIES) == {*TASKS, *MORE, "replaced"}


@pytest.mark.parametrize("kind", LIBRARIES)
def test_the_code_of_a_card_runs(
    kind: str, task, tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = _model(kind, task)
    if kind == "replaced":
        model.save_to_preset(tmp_path)
    else:
        Predictor(model, tokenizer).save_to_preset(tmp_path)
    blocks = re.findall(
        r"```python\n(.*?)```", (tmp_path / CARD).read_text(encoding="utf-8"), re.DOTALL
    )
    library = LIBRARIES[kind]
    assert len(blocks) == 1 + bool(library)
    assert not library or f"from {library} import" in blocks[1]
    monkeypatch.chdir(tmp_path)
    if library:
        pytest.importorskip(library)
    for block in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block, CARD, "exec"), {})
        assert printed.getvalue().strip()


def test_without_a_tokenizer_only_the_model_is_opened(tmp_path: Path) -> None:
    BertEncoder(TINY).save_to_preset(tmp_path)
    text = (tmp_path / CARD).read_text(encoding="utf-8")
    assert 'bk.load_checkpoint(".")' in text
    assert "transformers import" not in text
    assert "The folder has no tokenizer" in text


def test_a_predictor_of_pairs_is_called_with_pairs(task, tokenizer) -> None:
    lines = [
        "\n".join(model_card_code.usage(task("labels"), tokenizer, PredictorConfig(pairs=pairs)))
        for pairs in (False, True)
    ]
    assert 'predictor("A first text.")' in lines[0]
    assert 'predictor("A first text.", "A second one.")' in lines[1]
    assert 'tokenizer("A first text.", "A second one.", return_tensors' in lines[1]
