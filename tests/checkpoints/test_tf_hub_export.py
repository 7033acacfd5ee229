"""Exported encoders of TensorFlow Hub are read exactly, on every backend.

TensorFlow writes these checkpoints without the program, which is never read. The export is tested
in `tests/export`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import (
    BertEncoder,
    MaskedLM,
    Pretrainer,
    QuestionAnswerer,
    SequenceClassifier,
    Tokenizer,
    load_checkpoint,
    presets,
)
from bert_keras.checkpoints import tf_hub_export
from bert_keras.errors import ArtifactError
from bert_keras.tokenizers.vocabulary import vocabulary_text
from tests import contracts
from tests.contracts import FAMILIES, TINY
from tests.hub import WORDS

tf = pytest.importorskip("tensorflow")

FILE = "assets.extra/bert_keras.json"
# Each value differs from that of Google's models.
ODD = TINY.replace(
    activation="relu", layer_norm_epsilon=1e-5, dropout=0.3, attention_dropout=0.0, family="electra"
)
MODELS: dict[str, Callable[[], Any]] = {
    **{name: lambda config=config: BertEncoder(config) for name, config in FAMILIES.items()},
    "odd": lambda: BertEncoder(ODD),
    "albert": lambda: BertEncoder(
        TINY.replace(family="albert", num_unique_layers=1, embedding_size=4, num_layers=3)
    ),
    "roberta": lambda: BertEncoder(
        TINY.replace(family="roberta", num_segments=1, position_offset=2, pooler=False)
    ),
    "distilbert": lambda: BertEncoder(
        TINY.replace(family="distilbert", num_segments=0, pooler=False)
    ),
    "masked_lm": lambda: MaskedLM(BertEncoder(ODD), activation="gelu", layer_norm_epsilon=1e-3),
    "masked_lm, projected": lambda: MaskedLM(BertEncoder(TINY.replace(embedding_size=4))),
}


def write(model: Any, folder: Path, tokenizer: Tokenizer | None = None) -> Path:
    """Write the files of an exported encoder that are read here."""
    tokenizer = tokenizer or Tokenizer(WORDS)
    encoder = getattr(model, "encoder", model)
    lists = {"variables": list(encoder.variables)}
    if isinstance(model, MaskedLM | Pretrainer):
        own = [v for v in model.mlm.variables if v is not encoder.embeddings.token.embeddings]
        lists["mlm_variables"] = [*encoder.variables, *own]
    made: dict[int, Any] = {}
    for variable in [each for listed in lists.values() for each in listed]:
        if id(variable) not in made:
            made[id(variable)] = tf.Variable(keras.ops.convert_to_numpy(variable))
    found = {name: [made[id(each)] for each in listed] for name, listed in lists.items()}
    root = tf.train.Checkpoint(variables=found["variables"], do_lower_case=tf.Variable(True))
    if "mlm_variables" in found:
        root.mlm = tf.train.Checkpoint(variables=found["mlm_variables"])
    (folder / "assets").mkdir(parents=True)
    content = vocabulary_text(tokenizer.vocabulary)
    (folder / "assets" / "vocab.txt").write_bytes(content)
    (folder / "saved_model.pb").write_bytes(b"a program, which is not read")
    root.write(str(folder / "variables" / "variables"))
    tf_hub_export.write(model, tokenizer, content, lists, folder)
    return folder


@pytest.fixture(scope="module")
def masked_lm() -> MaskedLM:
    return contracts.as_trained(MODELS["masked_lm"]())


@pytest.fixture(scope="module")
def folder(masked_lm: MaskedLM, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an exported encoder and preprocessor. Copy it before changing it."""
    pair = tmp_path_factory.mktemp("pair")
    (pair / "preprocessor").mkdir()
    write(masked_lm, pair / "encoder")
    return pair


@pytest.mark.parametrize("name", MODELS)
def test_same_weights_config_and_outputs(name: str, tmp_path: Path) -> None:
    model = contracts.as_trained(MODELS[name]())
    opened = load_checkpoint(write(model, tmp_path / "encoder"))
    assert type(opened) is type(model)
    assert opened.get_config() == model.get_config()
    contracts.assert_same_weights(opened, model)
    x = contracts.inputs_of(model)
    contracts.assert_close(contracts.numpy(opened(x)), contracts.numpy(model(x)), 0.0)


def test_the_pair_and_trust_are_taken(folder: Path, masked_lm: MaskedLM) -> None:
    for place in (folder, folder / "encoder"):
        for trust in (False, True):
            opened = BertEncoder.from_preset(place, trust=trust)
            assert opened.config == masked_lm.encoder.config
            contracts.assert_same_weights(opened, masked_lm.encoder)
    new = BertEncoder.from_preset(folder, load_weights=False)
    assert new.config == ODD


def test_a_pretrainer_opens_as_a_masked_lm(tmp_path: Path) -> None:
    model = contracts.as_trained(Pretrainer(BertEncoder(TINY)))
    opened = MaskedLM.from_preset(write(model, tmp_path / "encoder"))
    theirs = contracts.weights(model)
    for path, values in contracts.weights(opened).items():
        np.testing.assert_array_equal(values, theirs[path])
    assert type(load_checkpoint(tmp_path / "encoder")) is MaskedLM
    with pytest.raises(ArtifactError, match="has nothing for nsp/dense/kernel"):
        Pretrainer.from_preset(tmp_path / "encoder")


def test_tasks_with_new_heads(folder: Path, masked_lm: MaskedLM, tmp_path: Path) -> None:
    task = SequenceClassifier.from_preset(folder, labels=["bad", "good"])
    contracts.assert_same_weights(task.encoder, masked_lm.encoder)
    assert task.tokenizer == Tokenizer(WORDS)
    answers = QuestionAnswerer.from_preset(folder, new_head=True)
    contracts.assert_same_weights(answers.encoder, masked_lm.encoder)
    with pytest.raises(ArtifactError, match=r"nothing for span/.* new_head=True for a whole new"):
        QuestionAnswerer.from_preset(folder)
    without = contracts.as_trained(MODELS["no_pooler"]())
    write(without, tmp_path / "encoder")
    task = SequenceClassifier.from_preset(tmp_path, num_classes=3)
    contracts.assert_same_weights(task.encoder, without)


@pytest.mark.parametrize("start", ["", "encoder/"])
def test_what_a_repository_is_asked_for(
    start: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights of an exported encoder are requested, and its program is not."""
    asked: list[str] = []

    def resolve(handle: Any, files: Any) -> Path:
        asked.extend(files)
        return folder / start

    monkeypatch.setattr(presets, "resolve_handle", resolve)
    BertEncoder.from_preset("hf://someone/bert")
    Tokenizer.from_preset("hf://someone/bert")
    names = ("variables/variables.index", "variables/variables.data-*", FILE, "assets/vocab.txt")
    assert {f"{place}{name}" for place in ("", "encoder/") for name in names} <= set(asked)
    assert not any("saved_model.pb" in name for name in asked)


def changed(folder: Path, tmp_path: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    """Return a copy of the encoder's folder with a changed bert_keras.json."""
    place = tmp_path / "changed"
    shutil.copytree(folder / "encoder", place)
    values = json.loads((place / FILE).read_text())
    change(values)
    (place / FILE).write_text(json.dumps(values))
    return place


QUERY, BIAS = "block_0/attention/query/kernel", "pooler/dense/bias"
WRONG: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "later version": (lambda v: v.update(format=2), r"format 2 is not known.* Update"),
    "unknown key": (lambda v: v.update(more=1), r"unknown keys: 'more'"),
    "no config": (lambda v: v.pop("config"), r"`config` must be a JSON object\. Received: None"),
    "bad config": (lambda v: v["config"].update(num_heads=3), r"`num_heads` must divide"),
    "another config": (lambda v: v["config"].update(hidden_size=16), r"Of another shape"),
    "class": (lambda v: v.update({"class": "Task"}), r"`class` must be BertEncoder or MaskedLM"),
    "class of no head": (
        lambda v: v.update({"class": "BertEncoder"}),
        r"contradicts itself: class='BertEncoder', and `mlm_variables` is there",
    ),
    "head of no class": (
        lambda v: v.pop("mlm_variables"),
        r"contradicts itself: class='MaskedLM', and `mlm_variables` is missing",
    ),
    "no list": (lambda v: v.update(mlm_variables=[]), r"`mlm_variables` must be a JSON object"),
    "no number": (
        lambda v: v["variables"].update({BIAS: "7"}),
        r"`variables` must hold whole numbers of at least 0\. Received: {'pooler/dense/bias': '7'}",
    ),
    "absent variable": (
        lambda v: v["variables"].update({BIAS: 999}),
        r"pooler/dense/bias is number 999 of variables, which .* does not have\. Take the whole",
    ),
    "absent variable of the head": (
        lambda v: v["mlm_variables"].update({"mlm/bias": 999}),
        r"mlm/bias is number 999 of mlm\.variables, which",
    ),
    "one variable twice": (
        lambda v: v["variables"].update({BIAS: v["variables"][QUERY]}),
        r"two paths name one variable\. Take the whole folder",
    ),
    "missing variable": (
        lambda v: v["variables"].pop(BIAS),
        rf"Missing in the file:\n  {BIAS} .closest in the file: .*bias.$",
    ),
    "unknown variable": (
        lambda v: v["variables"].update({"x/kernel": v["variables"].pop(BIAS)}),
        r"Not used by the model:\n  x/kernel$",
    ),
    "other options": (lambda v: v["options"].update(labels=[]), r"options do not fit a MaskedLM"),
    "adapter": (lambda v: v.update(adapters={QUERY: 1.0}), r"the adapter or the scales of block_0"),
    "bad scale": (lambda v: v.update(adapters={QUERY: "1"}), r"`adapters` must hold finite number"),
    "quantised": (lambda v: v.update(quantization={QUERY: "int8"}), r"the adapter or the scales"),
}


@pytest.mark.parametrize("case", WRONG)
def test_contradicting_files_are_refused(case: str, folder: Path, tmp_path: Path) -> None:
    change, message = WRONG[case]
    place = changed(folder, tmp_path, change)
    with pytest.raises(ArtifactError, match=message) as error:
        load_checkpoint(place)
    assert str(place) in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (FILE, b"{", r"bert_keras\.json: not JSON"),
        (FILE, b"[]", r"bert_keras\.json: expected a JSON object"),
        (FILE, b'{"format": 1, "format": 1}', r"'format' is said twice"),
        ("variables/variables.index", b"", r"not a whole TensorFlow checkpoint"),
    ],
)
def test_damaged_files_are_refused(
    name: str, content: bytes, message: str, folder: Path, tmp_path: Path
) -> None:
    place = changed(folder, tmp_path, dict)
    (place / name).write_bytes(content)
    with pytest.raises(ArtifactError, match=message):
        BertEncoder.from_preset(place)
