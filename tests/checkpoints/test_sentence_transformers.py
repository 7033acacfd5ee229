"""Folders of sentence-transformers: small ones, and a real model where it is installed."""

from __future__ import annotations

import csv
import json
import os
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras import (
    BertEncoder,
    Predictor,
    SentenceEncoder,
    Tokenizer,
    load_checkpoint,
)
from bert_keras.checkpoints import sentence_transformers as module
from bert_keras.errors import ArtifactError
from tests import contracts
from tests.contracts import TINY

_WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(45))]
_TEXTS = ["w1 w2 w3", "w4", "w5 w6 w7 w8 w9 w10 w11 w12 w13 w14"]


@pytest.fixture(scope="session")
def library() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("sentence_transformers")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    task = contracts.as_trained(SentenceEncoder(BertEncoder(TINY)))
    task.save_to_preset(tmp_path / "folder")
    Tokenizer(_WORDS).save_to_preset(tmp_path / "folder")
    return tmp_path / "folder"


def _vectors(library: Any, folder: Path, texts: list[str]) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = library.SentenceTransformer(str(folder), device="cpu")
        return theirs.encode(texts, batch_size=32)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
@pytest.mark.parametrize("normalize", [True, False])
def test_they_open_ours_and_we_theirs(
    pooling: str, normalize: bool, library: Any, tmp_path: Path
) -> None:
    task = SentenceEncoder(BertEncoder(TINY), pooling=pooling, normalize=normalize)
    contracts.as_trained(task).save_to_preset(tmp_path / "ours")
    tokenizer = Tokenizer(_WORDS)
    tokenizer.save_to_preset(tmp_path / "ours")
    expected = Predictor(task, tokenizer)(_TEXTS)
    np.testing.assert_allclose(_vectors(library, tmp_path / "ours", _TEXTS), expected, atol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = library.SentenceTransformer(str(tmp_path / "ours"), device="cpu")
        theirs.save(str(tmp_path / "theirs"))
    opened = load_checkpoint(tmp_path / "theirs")
    assert isinstance(opened, SentenceEncoder)
    assert opened.options == {"pooling": pooling, "normalize": normalize}
    contracts.assert_same_weights(opened, task)


def test_an_encoder_can_be_opened_as_one(folder: Path, tmp_path: Path) -> None:
    BertEncoder.from_preset(folder).save_to_preset(tmp_path / "encoder")
    task = SentenceEncoder.from_preset(tmp_path / "encoder", pooling="cls")
    assert task.options == {"pooling": "cls", "normalize": True}


def _edit(folder: Path, name: str, change: Any) -> None:
    path = folder / name
    if change is None:  # every key twice
        path.write_text(re.sub(r'("\w+": [^,}]+)', r"\1, \1", path.read_text()))
        return
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


_POOLING = "1_Pooling/config.json"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("modules.json", lambda _: {"a": 1}, "not a list of modules"),
        ("modules.json", lambda m: m[:1], r"only Transformer, Pooling, Normalize can be opened"),
        ("modules.json", lambda m: [{**m[0], "path": "../x"}, *m[1:]], r"\('Transformer', '../x'"),
        ("modules.json", lambda m: [*m, {"type": "x.Dense", "path": "3"}], r"\('Dense', '3'\)"),
        (
            _POOLING,
            lambda p: p | {"pooling_mode_max_tokens": True},
            r"exactly one of mean, cls",
        ),
        (_POOLING, lambda _: {"pooling_mode": "lasttoken"}, "Received: lasttoken"),
        (_POOLING, lambda _: {}, "Received: none"),
        (_POOLING, None, r"1_Pooling/config\.json: 'word_embedding_dimension' is said twice"),
        ("modules.json", None, r"modules\.json: 'idx' is said twice"),
    ],
)
def test_refused(name: str, change: Any, message: str, folder: Path) -> None:
    (folder / "bert_keras.json").unlink()
    _edit(folder, name, change)
    with pytest.raises(ArtifactError, match=message):
        load_checkpoint(folder)


def test_is_one(folder: Path, tmp_path: Path) -> None:
    assert module.is_one(folder)
    assert not module.is_one(tmp_path)


# === all-MiniLM-L6-v2, from the package index ===


@pytest.fixture(scope="session")
def pairs(shared_data: Path) -> tuple[list[str], list[str], np.ndarray]:
    path = shared_data / "stsb" / "official_dev.tsv"
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    firsts, seconds = ([row[f"sentence{n}"] for row in rows] for n in (1, 2))
    return firsts, seconds, np.array([float(row["score"]) for row in rows])


@pytest.mark.data
def test_real_weights_give_the_tokens_of_transformers(
    mini_lm: Path, pairs: Any, transformers: Any
) -> None:
    import torch

    texts = pairs[0][:64]
    x = Tokenizer.from_preset(mini_lm)(texts)
    found = contracts.numpy(BertEncoder.from_preset(mini_lm)(x))["sequence_output"]
    theirs = transformers.BertModel.from_pretrained(mini_lm).eval()
    inputs = transformers.AutoTokenizer.from_pretrained(mini_lm)(
        texts, padding=True, return_tensors="pt"
    )
    np.testing.assert_array_equal(inputs["input_ids"].numpy(), x["token_ids"])
    with torch.no_grad():
        expected = theirs(**inputs).last_hidden_state.numpy()
    real = x["padding_mask"].astype(bool)
    np.testing.assert_allclose(found[real], expected[real], rtol=0, atol=1e-5)


@pytest.mark.data
def test_real_weights_give_the_vectors_of_sentence_transformers(
    mini_lm: Path, pairs: Any, library: Any
) -> None:
    """A tenth of the pairs; with BERT_KERAS_ALL_PAIRS=1 all, which takes a minute."""
    stats = pytest.importorskip("scipy.stats")
    firsts, seconds, scores = pairs
    if os.environ.get("BERT_KERAS_ALL_PAIRS") != "1":
        firsts, seconds, scores = firsts[:150], seconds[:150], scores[:150]
    task = SentenceEncoder.from_preset(mini_lm)
    predictor = Predictor(task, Tokenizer.from_preset(mini_lm), max_length=256)
    found = predictor([*firsts, *seconds])
    expected = _vectors(library, mini_lm, [*firsts, *seconds])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    similar = [
        (vectors[: len(firsts)] * vectors[len(firsts) :]).sum(-1) for vectors in (found, expected)
    ]
    ours, theirs = (stats.spearmanr(values, scores).statistic for values in similar)
    print(f"Spearman of {len(firsts)} pairs: {ours:.4f}; of sentence-transformers: {theirs:.4f}")
    assert round(ours, 4) == round(theirs, 4)
