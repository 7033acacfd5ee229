"""Folders of cross-encoders open as `TextRanker`, and those of a `TextRanker` as cross-encoders."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from bert_keras import (
    BertEncoder,
    Predictor,
    SequenceClassifier,
    TextRanker,
    Tokenizer,
    load_checkpoint,
)
from bert_keras.checkpoints import family_head
from bert_keras.checkpoints.hugging_face_names import FAMILIES
from bert_keras.checkpoints.manifest import WEIGHTS
from bert_keras.errors import ArtifactError
from tests import contracts, families, reference, sentence_folders

QUERY = "w1 w2 w30"
DOCUMENTS = ["w3", "w4 w5", "w1 w2 w30", "w7 w8 w9 w10"]


def _theirs(library: Any, folder: Path, **options: Any) -> np.ndarray:
    """Return the scores of `CrossEncoder.predict`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = library.CrossEncoder(str(folder), device="cpu", **options)
        return model.predict([(QUERY, document) for document in DOCUMENTS])


def _ours(model: Any) -> np.ndarray:
    return model.predict_pair_scores([QUERY] * len(DOCUMENTS), DOCUMENTS)


@pytest.mark.parametrize("activation", ["Sigmoid", "Identity"])
def test_a_cross_encoder_opens_as_a_ranker(
    activation: str, library: Any, transformers: Any, tmp_path: Path
) -> None:
    del transformers
    base = sentence_folders.write_transformer(
        tmp_path / "base", "ForSequenceClassification", num_labels=1
    )
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = library.CrossEncoder(
            str(base), device="cpu", activation_fn=getattr(torch.nn, activation)()
        )
        model.save(str(tmp_path / "theirs"))
    expected = _theirs(library, tmp_path / "theirs")
    ranker = TextRanker.from_preset(tmp_path / "theirs")
    np.testing.assert_allclose(_ours(ranker), expected, atol=1e-5)
    assert [each.index for each in ranker.rank(QUERY, DOCUMENTS)] == np.argsort(-expected).tolist()
    classifier = SequenceClassifier.from_preset(tmp_path / "theirs")
    np.testing.assert_allclose(_ours(classifier), expected, atol=1e-5)
    assert type(load_checkpoint(tmp_path / "theirs")) is SequenceClassifier
    # And back, with the manifest of this package and without.
    ranker.save_to_preset(tmp_path / "ours")
    np.testing.assert_allclose(_theirs(library, tmp_path / "ours"), expected, atol=1e-5)
    assert type(load_checkpoint(tmp_path / "ours")) is TextRanker
    np.testing.assert_allclose(_ours(Predictor.from_preset(tmp_path / "ours")), expected, atol=1e-5)
    np.testing.assert_allclose(
        _ours(SequenceClassifier.from_preset(tmp_path / "ours")), expected, atol=1e-5
    )
    (tmp_path / "ours" / "bert_keras.json").unlink()
    opened = TextRanker.from_preset(tmp_path / "ours")
    assert opened.options == ranker.options
    np.testing.assert_allclose(_ours(opened), expected, atol=1e-5)


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "electra", "modernbert"])
def test_the_files_are_those_of_a_classifier(family: str, tmp_path: Path) -> None:
    """The names of tensors and all values of config.json are the same in both classes."""
    config = families.config_of(family)
    head: dict[str, Any] = {} if config.pooler else {"hidden_activation": "tanh"}
    head |= family_head("SequenceClassifier", config)
    ranker = contracts.as_trained(TextRanker(BertEncoder(config), **head))
    ranker.save_to_preset(tmp_path / "ranker")
    classifier = SequenceClassifier(BertEncoder(config), 1, activation="sigmoid", **head)
    contracts.as_trained(classifier).save_to_preset(tmp_path / "classifier")
    configs, names = [], []
    for folder in (tmp_path / "ranker", tmp_path / "classifier"):
        configs.append(json.loads((folder / "config.json").read_text(encoding="utf-8")))
        size = int.from_bytes((folder / "model.safetensors").read_bytes()[:8], "little")
        names.append(json.loads((folder / "model.safetensors").read_bytes()[8 : 8 + size]).keys())
    assert configs[0] == configs[1]
    assert configs[0]["architectures"] != [None]
    assert names[0] == names[1]
    x = contracts.inputs_of(ranker)
    for opened in (
        TextRanker.from_preset(tmp_path / "ranker"),
        TextRanker.from_preset(tmp_path / "classifier", loss="lambda"),
    ):
        wanted = contracts.numpy(contracts.as_trained(opened)(x))["score"]
        contracts.assert_close(wanted, contracts.numpy(ranker(x))["score"], 1e-6)


_FIRST = ("bert", "roberta", "distilbert", "electra", "modernbert")


@pytest.mark.parametrize(
    "family",
    [
        pytest.param(name, marks=[] if name in _FIRST else [pytest.mark.slow])
        for name, rows in FAMILIES.items()
        if "TextRanker" in rows.classes
    ],
)
def test_folders_of_transformers_of_every_family(
    family: str, transformers: Any, tmp_path: Path
) -> None:
    model = reference.hugging_face_model(
        transformers, "ForSequenceClassification", family, num_labels=1
    )
    model.save_pretrained(tmp_path / "theirs")
    ranker = TextRanker.from_preset(tmp_path / "theirs")
    classifier = SequenceClassifier.from_preset(tmp_path / "theirs")
    x = contracts.inputs_of(classifier)
    reference.same_as_hugging_face(classifier, model, x)
    expected = contracts.numpy(classifier(x))["label"]
    found = contracts.numpy(ranker({name: values[:, None] for name, values in x.items()}))["score"]
    contracts.assert_close(found, expected, 1e-6)
    ranker.save_to_preset(tmp_path / "back")
    before, after = (load_file(tmp_path / name / WEIGHTS) for name in ("theirs", "back"))
    assert after.keys() == before.keys()
    for name, values in before.items():
        assert after[name].tobytes() == values.tobytes(), name
    again = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "back")
    assert type(again) is type(model)
    for name, values in model.state_dict().items():
        assert again.state_dict()[name].equal(values), name


def test_heads_with_several_labels_are_refused(tmp_path: Path) -> None:
    config = contracts.TINY.replace(vocab_size=50)
    SequenceClassifier(BertEncoder(config), 3).save_to_preset(tmp_path / "ours")
    with pytest.raises(ArtifactError, match="has 3 labels, and a TextRanker has one score"):
        TextRanker.from_preset(tmp_path / "ours")
    assert TextRanker.from_preset(tmp_path / "ours", new_head=True).count_params()
    (tmp_path / "ours" / "bert_keras.json").unlink()
    with pytest.raises(ArtifactError, match="has 3 labels, and a TextRanker has one score"):
        TextRanker.from_preset(tmp_path / "ours")


def test_the_card_ranks(tmp_path: Path) -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(45))]
    encoder = BertEncoder(contracts.TINY.replace(vocab_size=len(words)))
    TextRanker(encoder, tokenizer=Tokenizer(words)).save_to_preset(tmp_path)
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "pipeline_tag: text-ranking" in card
    assert "CrossEncoder" in card
    assert "predictor.predict_pair_scores(" in card
