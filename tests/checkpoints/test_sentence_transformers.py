"""Folders of sentence-transformers: a small one of each kind, and a real model."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras import (
    BertEncoder,
    Predictor,
    SentenceEncoder,
    SequenceClassifier,
    Tokenizer,
    load_checkpoint,
)
from bert_keras.checkpoints import sentence_transformers as module
from bert_keras.errors import ArtifactError
from bert_keras.predictor import PredictorConfig, read_predictor_config
from tests import contracts, sentence_folders
from tests.contracts import TINY

pytestmark = contracts.MAY_CUT  # their texts are longer than some of the lengths
_WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(45))]
_TEXTS = ["w1 w2 w3", "w4", "w5 w6 w7 w8 w9 w10 w11 w12 w13 w14"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a saved sentence encoder and its tokenizer."""
    task = contracts.as_trained(SentenceEncoder(BertEncoder(TINY)))
    task.save_to_preset(tmp_path / "folder")
    Tokenizer(_WORDS).save_to_preset(tmp_path / "folder")
    return tmp_path / "folder"


def _theirs(library: Any, folder: Path, kind: str) -> np.ndarray:
    """Return the answers that sentence-transformers computes from a folder."""
    texts = sentence_folders.texts()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind in sentence_folders.VECTORS:
            return library.SentenceTransformer(str(folder), device="cpu").encode(texts)
        pairs = [list(pair) for pair in zip(texts, texts[::-1], strict=True)]
        return library.CrossEncoder(str(folder), device="cpu").predict(pairs)


def _ours(predictor: Predictor, kind: str) -> np.ndarray:
    """Return the answers of this package for the texts of a folder's kind."""
    texts = sentence_folders.texts()
    if kind in sentence_folders.VECTORS:
        return predictor.encode(texts)
    return predictor.predict_pair_scores(texts, texts[::-1])


@pytest.mark.parametrize("kind", sentence_folders.KINDS)
def test_answers_are_theirs_and_stay_so_when_written_back(
    kind: str, sentence_folder: Any, library: Any, tmp_path: Path
) -> None:
    folder, expected = sentence_folder(kind)
    predictor = Predictor.from_preset(folder)
    np.testing.assert_allclose(_ours(predictor, kind), expected, rtol=0, atol=1e-5)
    predictor.save_to_preset(tmp_path)
    again = Predictor.from_preset(tmp_path)
    assert again.task.options == predictor.task.options
    assert (again.max_length, again.pairs) == (predictor.max_length, predictor.pairs)
    np.testing.assert_allclose(_ours(again, kind), expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(_theirs(library, tmp_path, kind), expected, rtol=0, atol=1e-5)
    (tmp_path / "bert_keras.json").unlink()
    (tmp_path / "predictor.json").unlink()
    opened = Predictor.from_preset(tmp_path)
    np.testing.assert_allclose(_ours(opened, kind), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", sentence_folders.VECTORS)
def test_similarity_is_theirs(kind: str, sentence_folder: Any, library: Any) -> None:
    """`Predictor.similarity` gives the scores of sentence-transformers."""
    folder, vectors = sentence_folder(kind)
    texts = sentence_folders.texts()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = library.SentenceTransformer(str(folder), device="cpu")
    expected = model.similarity_pairwise(vectors, vectors[::-1].copy()).numpy()
    found = Predictor.from_preset(folder).similarity(texts, texts[::-1])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["default prompt", "prompt not pooled", "prompted score"])
def test_prompts_are_theirs(kind: str, sentence_folder: Any, library: Any) -> None:
    folder, default = sentence_folder(kind)
    texts = sentence_folders.texts(20)
    is_vectors = kind in sentence_folders.VECTORS
    predictor = Predictor.from_preset(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = (library.SentenceTransformer if is_vectors else library.CrossEncoder)(
            str(folder), device="cpu"
        )
    prompt: dict[str, Any]
    for prompt in ({"prompt_name": "query"}, {"prompt": "w7 "}, {"prompt": ""}):
        if is_vectors:
            expected, found = theirs.encode(texts, **prompt), predictor.encode(texts, **prompt)
        else:
            pairs = [list(pair) for pair in zip(texts, texts[::-1], strict=True)]
            expected = theirs.predict(pairs, **prompt)
            found = predictor.predict_pair_scores(texts, texts[::-1], **prompt)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
        assert np.abs(found - default[:20]).max() > 1e-3, prompt


@pytest.mark.parametrize("name", sentence_folders.OTHERS)
def test_other_kinds_of_model_are_refused_by_name(name: str, base: Path, library: Any) -> None:
    folder = base.with_name(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sentence_folders.OTHERS[name](library, base, folder)
    for attempt in (load_checkpoint, Predictor.from_preset, SentenceEncoder.from_preset):
        with pytest.raises(ArtifactError, match=f"a {name} of sentence-transformers"):
            attempt(folder)
    # The modules also tell the kind, and the encoder alone opens.
    (folder / module.CONFIG).unlink()
    with pytest.raises(ArtifactError, match=f"a {name} of sentence-transformers"):
        load_checkpoint(folder)
    assert BertEncoder.from_preset(folder).config.hidden_size == sentence_folders.HIDDEN
    (folder / module.CONFIG).write_text('{"model_type": "ColBERT", "query_prefix": "[Q] "}')
    with pytest.raises(ArtifactError, match="a MultiVectorEncoder of sentence-transformers"):
        load_checkpoint(folder)


# === The place of the activation for pairs ===

_TANH = "torch.nn.modules.activation.Tanh"
_NEW, _V4, _V3 = module.CONFIG, "sentence_transformers", "sbert_ce_default_activation_function"


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("place", [_NEW, _V4, _V3, "nowhere"])
def test_the_activation_of_pairs(
    place: str, count: int, sentence_folder: Any, library: Any, tmp_path: Path
) -> None:
    kind = {1: "one score", 3: "three scores"}[count]
    shutil.copytree(sentence_folder(kind)[0], tmp_path / "folder")
    folder = tmp_path / "folder"
    if place == _NEW:
        _edit(folder, _NEW, lambda values: values | {"activation_fn": _TANH})
    else:  # Versions before 6 have none of these files.
        for name in ("modules.json", _NEW, "sentence_bert_config.json"):
            (folder / name).unlink()
        told = {_V4: {"activation_fn": _TANH, "version": "4.1.0"}, _V3: _TANH}
        _edit(folder, "config.json", lambda v: v | {k: told[k] for k in told if k == place})
    expected = _theirs(library, folder, kind)
    predictor = Predictor.from_preset(folder)
    np.testing.assert_allclose(_ours(predictor, kind), expected, rtol=0, atol=1e-5)
    assert predictor.pairs == (place != "nowhere")
    texts = sentence_folders.texts(5)
    if count == 3:  # Scores of several labels are still probabilities.
        scores = predictor.predict_scores(texts, texts)
        np.testing.assert_allclose(scores.sum(axis=1), 1, rtol=1e-5)
    elif place != "nowhere":
        found = predictor(texts, texts)
        np.testing.assert_array_equal(found[:, 0], predictor.predict_pair_scores(texts, texts))


@pytest.mark.parametrize("activation", ["payload.Activation", 7])
def test_an_activation_of_other_code_is_not_run(
    activation: Any, sentence_folder: Any, library: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(sentence_folder("one score")[0], folder)
    _edit(folder, _NEW, lambda values: values | {"activation_fn": activation})
    with pytest.warns(UserWarning, match="code of its own, which is never run"):
        predictor = Predictor.from_preset(folder)
    assert predictor.task.options["activation"] == "sigmoid"


# === Settings that a folder of this package contains twice ===


@pytest.mark.parametrize(
    ("name", "change", "key"),
    [
        (_NEW, lambda v: v | {"default_prompt_name": "query"}, "default_prompt_name"),
        (_NEW, lambda v: v | {"prompts": {"query": "other: "}}, "prompts"),
        (_NEW, lambda v: v | {"similarity_fn_name": "dot"}, "similarity"),
        (_NEW, lambda v: v | {"truncate_dim": 3}, "truncate_dim"),
        ("modules.json", lambda rows: rows[:2], "normalize"),
        ("1_Pooling/config.json", lambda v: v | {"include_prompt": False}, "include_prompt"),
    ],
)
def test_contradictions_in_a_folder_of_ours(
    name: str, change: Any, key: str, tmp_path: Path
) -> None:
    """A folder whose files contradict each other is refused. The encoder alone opens."""
    task = SentenceEncoder(BertEncoder(TINY), prompts={"query": "query: "})
    contracts.as_trained(task).save_to_preset(tmp_path)
    assert load_checkpoint(tmp_path).options == task.options
    _edit(tmp_path, name, change)
    with pytest.raises(ArtifactError, match=f"contradict each other in {key}:"):
        load_checkpoint(tmp_path)
    assert type(BertEncoder.from_preset(tmp_path)) is BertEncoder


def test_damaged_dense_layers_are_found(tmp_path: Path) -> None:
    task = SentenceEncoder(BertEncoder(TINY), dense=[{"units": 3}, {"units": 2, "residual": True}])
    contracts.as_trained(task).save_to_preset(tmp_path)
    assert sorted(path.parent.name for path in tmp_path.glob("*/model.safetensors")) == [
        "2_Dense",
        "3_Dense",
    ]
    contracts.assert_same_weights(load_checkpoint(tmp_path), task)
    shutil.copy(tmp_path / "2_Dense" / "model.safetensors", tmp_path / "3_Dense")
    with pytest.raises(ArtifactError, match=r"3_Dense.*not those that were written"):
        load_checkpoint(tmp_path)
    (tmp_path / "bert_keras.json").unlink()
    with pytest.raises(ArtifactError, match=r"dense\.1\.residual\.weight"):
        load_checkpoint(tmp_path, allow_missing=("pooler",))


def test_another_model_in_the_same_folder_leaves_no_modules(folder: Path, library: Any) -> None:
    SequenceClassifier(BertEncoder(TINY), 2).save_to_preset(folder)
    assert not module.is_one(folder)
    assert not (folder / module.CONFIG).exists()


# === Older folders ===


def test_an_encoder_can_be_opened_as_one(folder: Path, tmp_path: Path) -> None:
    BertEncoder.from_preset(folder).save_to_preset(tmp_path / "encoder")
    task = SentenceEncoder.from_preset(tmp_path / "encoder", pooling="cls")
    assert task.options == {"pooling": "cls", "normalize": True}


def test_a_transformer_in_a_folder_of_its_own(sentence_folder: Any, tmp_path: Path) -> None:
    """The transformer may be in a subfolder that modules.json names."""
    source, expected = sentence_folder("dense")
    inner = tmp_path / "0_Transformer"
    inner.mkdir()
    for path in source.iterdir():
        is_module = path.is_dir() or path.name in ("modules.json", module.CONFIG)
        (shutil.copytree if path.is_dir() else shutil.copy)(
            path, (tmp_path if is_module else inner) / path.name
        )
    _edit(tmp_path, "modules.json", lambda rows: [{**rows[0], "path": inner.name}, *rows[1:]])
    predictor = Predictor.from_preset(tmp_path)
    np.testing.assert_allclose(_ours(predictor, "dense"), expected, rtol=0, atol=1e-5)


def test_a_pickle_of_a_dense_layer_is_asked_for(sentence_folder: Any, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file

    source, expected = sentence_folder("dense")
    shutil.copytree(source, tmp_path / "folder")
    dense = tmp_path / "folder" / "2_Dense"
    weights = load_file(dense / "model.safetensors")
    (dense / "model.safetensors").unlink()
    torch.save(weights, dense / "pytorch_model.bin")
    with pytest.raises(ArtifactError, match=r"2_Dense.*a pickle, which can run code"):
        Predictor.from_preset(tmp_path / "folder")
    predictor = Predictor.from_preset(tmp_path / "folder", allow_pickle=True)
    np.testing.assert_allclose(_ours(predictor, "dense"), expected, rtol=0, atol=1e-5)


def _edit(folder: Path, name: str, change: Any) -> None:
    """Change a JSON file by a function. None writes each key twice."""
    path = folder / name
    if change is None:  # Write each key twice.
        path.write_text(re.sub(r'("\w+": [^,}]+)', r"\1, \1", path.read_text()))
        return
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


_POOLING = "1_Pooling/config.json"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("modules.json", lambda _: {"a": 1}, "not a list of modules"),
        ("modules.json", lambda m: m[:1], r"only Transformer, Pooling, any number of Dense"),
        ("modules.json", lambda m: [{**m[0], "path": "../x"}, *m[1:]], "outside the folder"),
        (
            "modules.json",
            lambda m: [*m, {"type": "sentence_transformers.models.Dense", "path": "3"}],
            "Received: Transformer, Pooling, Normalize, Dense",
        ),
        ("modules.json", lambda m: [*m, {"type": "x.Dense", "path": "3"}], "never run"),
        (_POOLING, lambda _: {"pooling_mode": "attention"}, "Received: 'attention'"),
        (_POOLING, lambda p: p | {"pooling_mode": "cls"}, "contradict each other"),
        (_POOLING, lambda _: {}, "embedding_dimension must be a whole number"),
        (_POOLING, lambda p: p | {"word_embedding_dimension": 9}, "of size 9.*gives 8"),
        (_POOLING, None, r"1_Pooling/config\.json: 'word_embedding_dimension' is said twice"),
        ("modules.json", None, r"modules\.json: 'idx' is said twice"),
        (_NEW, lambda c: c | {"model_type": "Other"}, "Received: model_type='Other'"),
        (_NEW, lambda c: c | {"prompts": {"a": 1}}, "prompts must be an object of names"),
        (_NEW, lambda c: c | {"default_prompt_name": "a"}, "must be one of no prompts"),
        (_NEW, lambda c: c | {"similarity_fn_name": "maxsim"}, "Received: 'maxsim'"),
        (_NEW, lambda c: c | {"truncate_dim": 0}, "truncate_dim must be a whole number"),
    ],
)
def test_refused(name: str, change: Any, message: str, folder: Path) -> None:
    (folder / "bert_keras.json").unlink()
    _edit(folder, name, change)
    with pytest.raises(ArtifactError, match=message):
        load_checkpoint(folder)


def test_several_flags_of_an_older_folder_are_joined_in_their_order(folder: Path) -> None:
    (folder / "bert_keras.json").unlink()
    _edit(folder, _POOLING, lambda p: p | {"pooling_mode_max_tokens": True})
    assert load_checkpoint(folder).options["pooling"] == ["max", "mean"]
    off = {"pooling_mode_max_tokens": False, "pooling_mode_mean_tokens": False}
    # Without a pooling mode sentence-transformers uses the mean.
    _edit(folder, _POOLING, lambda p: p | off)
    assert load_checkpoint(folder).options["pooling"] == "mean"


def test_is_one(folder: Path, tmp_path: Path) -> None:
    assert module.is_one(folder)
    assert not module.is_one(tmp_path)
    assert module.has_settings(folder)
    assert not module.has_settings(tmp_path)


# === all-MiniLM-L6-v2, from the package index ===


@pytest.fixture(scope="session")
def pairs(shared_data: Path) -> tuple[list[str], list[str], np.ndarray]:
    """Return both texts and the scores of the STS-B development set."""
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
    """Real weights give the vectors of sentence-transformers, for a tenth of the pairs.

    BERT_KERAS_ALL_PAIRS=1 compares all pairs, which takes a minute.
    """
    stats = pytest.importorskip("scipy.stats")
    firsts, seconds, scores = pairs
    if os.environ.get("BERT_KERAS_ALL_PAIRS") != "1":
        firsts, seconds, scores = firsts[:150], seconds[:150], scores[:150]
    task = SentenceEncoder.from_preset(mini_lm)
    predictor = Predictor(task, Tokenizer.from_preset(mini_lm), max_length=256)
    found = predictor([*firsts, *seconds])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = library.SentenceTransformer(str(mini_lm), device="cpu")
    expected = model.encode([*firsts, *seconds], batch_size=32)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    similar = [
        (vectors[: len(firsts)] * vectors[len(firsts) :]).sum(-1) for vectors in (found, expected)
    ]
    ours, theirs = (stats.spearmanr(values, scores).statistic for values in similar)
    print(f"Spearman of {len(firsts)} pairs: {ours:.4f}; of sentence-transformers: {theirs:.4f}")
    assert round(ours, 4) == round(theirs, 4)


# === Settings of prediction in a folder ===


def test_a_folder_that_says_nothing(tmp_path: Path) -> None:
    assert read_predictor_config(tmp_path) == PredictorConfig()
    (tmp_path / "predictor.json").write_text("{}")
    assert read_predictor_config(tmp_path) == PredictorConfig()


def test_two_lengths_in_one_folder(tmp_path: Path) -> None:
    """Two different maximum lengths in a folder are refused."""
    (tmp_path / "predictor.json").write_text('{"max_length": 9}')
    (tmp_path / "modules.json").write_text("[]")
    path = tmp_path / "sentence_bert_config.json"
    for text in ('{"max_seq_length": 9}', '{"max_seq_length": null}', "{}"):
        path.write_text(text)
        assert read_predictor_config(tmp_path).max_length == 9
    path.write_text('{"max_seq_length": 8}')
    message = r"predictor\.json: contradicts sentence_bert_config\.json: max_length is 9 here, max_"
    with pytest.raises(ArtifactError, match=message):
        read_predictor_config(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ('{"max_length": "9"}', "max_length must be a whole number of at least 1. Received: '9'"),
        ('{"max_length": 0}', "max_length must be a whole number of at least 1. Received: 0"),
        ('{"pairs": 1}', "pairs must be true or false. Received: 1"),
        ('{"options": [1]}', "options must be an object"),
        ('{"prompt": "query: "}', "unknown keys: 'prompt'"),
    ],
)
def test_damaged(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "predictor.json").write_text(text)
    with pytest.raises(ArtifactError, match=rf"predictor\.json: {message}"):
        read_predictor_config(tmp_path)
