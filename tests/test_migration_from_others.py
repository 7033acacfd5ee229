"""The migration pages for KerasHub and TensorFlow Hub: their code runs."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import keras
import pytest

import bert_keras as bk
from bert_keras import features
from tests import contracts, hub
from tests.checkpoints import test_tf_hub
from tests.markdown import PYTHON, blocks, run_python

DOCS = Path(__file__).parents[1] / "docs"
KERAS_HUB, TF_HUB = (DOCS / f"migration_from_{name}.md" for name in ("keras_hub", "tf_hub"))
WORDS = [*hub.WORDS[:40], "a", "fine", "film", "of", "."]


@pytest.mark.usefixtures("keras_hub")
@pytest.mark.filterwarnings("ignore")  # warnings of KerasHub
def test_the_page_of_keras_hub_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code runs with a local folder `bert_base_uncased`, which precedes the preset."""
    monkeypatch.chdir(tmp_path)
    encoder = bk.BertEncoder(contracts.TINY.replace(vocab_size=len(WORDS)))
    encoder.save_to_preset("bert_base_uncased")
    bk.Tokenizer(WORDS).save_to_preset("bert_base_uncased")
    values = run_python(blocks(KERAS_HUB.read_text(encoding="utf-8")), str(KERAS_HUB))
    assert values["logits"].shape == (2, 2)
    for name in ("theirs", "again"):
        assert type(values[name]).__name__ == "BertBackbone"
    back = bk.from_keras_hub(values["again"])
    contracts.assert_same_weights(back, values["encoder"])


def test_the_page_of_tf_hub_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if keras.backend.backend() != "tensorflow":
        pytest.skip("the page has a SavedModel as a layer, on the TensorFlow backend")
    tensorflow = pytest.importorskip("tensorflow")
    pytest.importorskip("tensorflow_text")
    monkeypatch.chdir(tmp_path)
    test_tf_hub.saved(tensorflow, tmp_path / "bert_en_uncased")
    values = run_python(blocks(TF_HUB.read_text(encoding="utf-8")), str(TF_HUB))
    assert values["model"].output_shape == (None, 2)
    assert values["tokenizer"].lowercase
    assert values["tokenizer"].vocab_size == 50


def test_names_of_inputs() -> None:
    text = TF_HUB.read_text(encoding="utf-8")
    for ours, theirs in features.TF_HUB.items():
        if theirs.startswith("input_"):
            assert re.search(rf"^\| `{theirs}` \| `{ours}` \|", text, re.MULTILINE), theirs


@pytest.mark.parametrize("page", [KERAS_HUB, TF_HUB], ids=["keras_hub", "tf_hub"])
def test_names_of_ours_are_there_and_old_code_is_marked(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name in set(re.findall(r"\bbk\.([\w.]+)", text)):
        place = bk
        for part in name.split("."):
            place = getattr(place, part)
    for block in blocks(text):
        if block.language in PYTHON:
            ast.parse(block.text)
            is_old = block.text.startswith(("# KerasHub", "# TensorFlow Hub"))
            assert is_old == (block.not_run is not None)


def test_pages_are_linked() -> None:
    for page in DOCS.glob("*.md"):
        for target in re.findall(r"\]\(([^)#]+\.\w+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            if "://" not in target:
                assert (DOCS / target).exists(), f"{page.name}: {target}"
