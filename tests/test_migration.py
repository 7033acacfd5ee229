"""docs/migration.md: its code runs, and its table has a working line for every class.

Tiny models in an offline cache of the hub replace the repositories that the page names.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bert_keras as bk
from bert_keras import features, models
from bert_keras.checkpoints.hugging_face_names import FAMILIES
from bert_keras.errors import ArtifactError
from tests import contracts, reference
from tests.markdown import PYTHON, blocks, run_python

PAGE = Path(__file__).parents[1] / "docs" / "migration.md"
THEIRS = "transformers 4"  # the reason why a block is not run

_ENDINGS = (
    *("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification"),
    *("ForQuestionAnswering", "ForMultipleChoice"),
)
# The models in `__all__` of modeling_tf_*.py of Transformers 4.57.6, the last version with
# TensorFlow.
_TENSORFLOW = {
    "bert": ("Bert", "ForPreTraining", "ForNextSentencePrediction", "LMHeadModel"),
    "roberta": ("Roberta", "ForCausalLM"),
    "xlm_roberta": ("XLMRoberta", "ForCausalLM"),
    "distilbert": ("DistilBert",),
    "albert": ("Albert", "ForPreTraining"),
    "electra": ("Electra", "ForPreTraining"),
}
# Families of that version whose classes the page names without a table.
_MORE = {
    "camembert": "Camembert",
    "deberta": "Deberta",
    "deberta_v2": "DebertaV2",
    "mpnet": "MPNet",
    "rembert": "RemBert",
    "roformer": "RoFormer",
    "roberta_prelayernorm": "RobertaPreLayerNorm",
}
# transformers has no TFDebertaForMultipleChoice.
_NOT_THERE = {"DebertaForMultipleChoice", "RoFormerForMultipleChoice"}
_CLASSES = {
    f"TF{name}{ending}": (family, ending)
    for family, (name, *more) in _TENSORFLOW.items()
    for ending in (*_ENDINGS, *more)
}
_LABELS = {"id2label": {0: "NEGATIVE", 1: "POSITIVE"}, "label2id": {"NEGATIVE": 0, "POSITIVE": 1}}
_WORDS = ["a", "fine", "film", "of", "no", "use", ".", *(f"w{n}" for n in range(38))]


def _lines() -> dict[str, str]:
    """Return the code for every class in the table of the page; "" for a class without code."""
    found: dict[str, str] = {}
    for row in re.findall(r"^\| `TF.*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE):
        theirs, ours, _ = (cell.strip() for cell in row.strip("|").split("|"))
        code = re.fullmatch(r"`(.*)`", ours)
        for name in re.findall(r"`(\w+)`", theirs):
            assert name not in found, f"{name} stands twice in the table"
            found[name] = code[1] if code else ""
    return found


LINES = _lines()


def test_the_table_has_every_class() -> None:
    assert set(LINES) == set(_CLASSES)
    assert len(_CLASSES) == 43


@pytest.mark.parametrize("family", _MORE)
def test_classes_of_families_without_a_table(family: str) -> None:
    theirs = {f"{_MORE[family]}{ending}" for ending in _ENDINGS if ending != "Model"}
    assert theirs - _NOT_THERE <= set(FAMILIES[family].classes.values())


def test_every_name_of_ours_is_there() -> None:
    names = set(re.findall(r"\bbk\.([\w.]+)", PAGE.read_text(encoding="utf-8")))
    assert names >= {"BertEncoder.from_preset", "load_checkpoint", "optimizer"}
    for name in names:
        place: Any = bk
        for part in name.split("."):
            place = getattr(place, part)
    in_table = {re.findall(r"bk\.(\w+)", line)[0] for line in LINES.values() if line}
    # Transformers has no TensorFlow class for these.
    others = {"SentenceEncoder", "SentencePairs", "ElectraPretrainer", "Distiller"}
    others |= {"ChunkedTask", "FewShot", "PackedTask", "TextRanker"}
    classes = {name for name in models.__all__ if isinstance(getattr(models, name), type)}
    assert in_table == classes - {"Task", *others}


@pytest.mark.parametrize("name", [name for name, line in LINES.items() if line])
def test_the_line_opens_what_the_class_opened(name: str, transformers: Any, tmp_path: Path) -> None:
    """Each line opens a Transformers checkpoint and gives the same outputs."""
    family, ending = _CLASSES[name]
    is_labelled = ending in ("ForSequenceClassification", "ForTokenClassification")
    theirs = reference.hugging_face_model(
        transformers, ending, family, **(_LABELS if is_labelled else {})
    )
    assert f"TF{type(theirs).__name__}" == name
    theirs.save_pretrained(tmp_path)
    ours = eval(LINES[name], {"bk": bk, "folder": tmp_path})
    if is_labelled:
        assert ours.options["labels"] == ["NEGATIVE", "POSITIVE"]
    if ending == "ForNextSentencePrediction":
        with pytest.raises(ArtifactError, match=r"Missing in the file:\n  cls\.predictions"):
            bk.Pretrainer.from_preset(tmp_path)
    else:
        assert type(bk.load_checkpoint(tmp_path)) is type(ours)  # as the TFAutoModel classes do
    x = contracts.inputs_of(ours)
    found = contracts.numpy(ours(x))
    if ending == "ForNextSentencePrediction":
        found, x = {features.NSP: found[features.NSP]}, x | {features.MASK_POSITIONS: None}
        expected = {features.NSP: _pair_logits(theirs, x)}
    else:
        expected = reference.hugging_face_outputs(theirs, x)
        assert found.keys() <= expected.keys()
    assert reference.difference(found, expected) < reference.TOLERANCE
    assert all(values.dtype == "float32" for values in found.values())


def _pair_logits(model: Any, x: dict[str, Any]) -> np.ndarray:
    import torch

    inputs = features.rename(x, features.HUGGING_FACE)
    del inputs[features.MASK_POSITIONS]
    with torch.no_grad():
        found = model(**{name: torch.tensor(array).long() for name, array in inputs.items()})
    return found.logits.numpy()


@pytest.mark.parametrize("name", [name for name, line in LINES.items() if not line])
def test_decoders_are_refused(name: str, transformers: Any, tmp_path: Path) -> None:
    family, ending = _CLASSES[name]
    for changes in ({}, {"is_decoder": True}):
        model = reference.hugging_face_model(transformers, ending, family, **changes)
        model.save_pretrained(tmp_path)
        with pytest.raises(ArtifactError, match=f"not supported: is_decoder|{name[2:]}"):
            bk.load_checkpoint(tmp_path)


def test_names_of_inputs_and_outputs() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for ours, theirs in features.HUGGING_FACE.items():
        assert re.search(rf"^\| `{theirs}` \| `{ours}`", text, re.MULTILINE), theirs


@pytest.fixture
def hub(transformers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Fill an offline cache of the hub with the repositories that the page names."""
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    for repository, family, ending, told, changes in (
        # The published file also has the weights of next sentence prediction, which BertForMaskedLM
        # lacks.
        ("google-bert/bert-base-uncased", "bert", "ForPreTraining", "BertForMaskedLM", {}),
        (
            "distilbert/distilbert-base-uncased-finetuned-sst-2-english",
            "distilbert",
            "ForSequenceClassification",
            "DistilBertForSequenceClassification",
            _LABELS,
        ),
    ):
        place = tmp_path / "hub" / f"models--{repository.replace('/', '--')}"
        folder = place / "snapshots" / ("0" * 40)
        reference.hugging_face_model(transformers, ending, family, **changes).save_pretrained(
            folder
        )
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "architectures": [told]}))
        specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        bk.Tokenizer([*specials, *_WORDS]).save_to_preset(folder)
        (place / "refs").mkdir(parents=True)
        (place / "refs" / "main").write_text("0" * 40)
    return tmp_path


@pytest.mark.usefixtures("keras_hub")
# the page says so
@pytest.mark.filterwarnings("ignore:Gradients do not exist for variables .'pooler")
def test_our_blocks_run(
    hub: Path, transformers: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(hub)
    found = run_python(blocks(PAGE.read_text(encoding="utf-8")), str(PAGE))
    assert isinstance(found["classifier"], bk.SequenceClassifier)
    assert "NEGATIVE" in (printed := capsys.readouterr().out) or "POSITIVE" in printed
    assert set(found["theirs"]) == {"input_ids", "attention_mask", "token_type_ids"}
    contracts.assert_same_weights(found["again"], found["model"])
    assert found["again"].options["labels"] == ["bad", "good"]
    assert (hub / "for_keras_hub" / "model.weights.h5").is_file()
    # Every masked position has a weight of 1 and its token as the label.
    asked = found["weights"]["mlm"] == 1.0
    assert asked.sum(axis=1).tolist() == [1, 2]
    ids = np.take_along_axis(found["inputs"]["token_ids"], found["positions"], axis=1)
    np.testing.assert_array_equal(ids == found["tokenizer"].mask_id, asked)
    np.testing.assert_array_equal(found["labels"], np.where(asked, 7, -100))
    opened = transformers.BertForSequenceClassification.from_pretrained(hub / "my_model")
    assert opened.config.id2label == {0: "bad", 1: "good"}


def test_blocks_are_ours_or_marked_as_theirs() -> None:
    found = blocks(PAGE.read_text(encoding="utf-8"))
    assert {block.language for block in found} <= set(PYTHON)
    old = [block for block in found if block.not_run is not None]
    assert {block.not_run for block in old} == {THEIRS}
    for block in found:
        is_theirs = "transformers" in block.text.splitlines()[0]
        assert is_theirs == (block in old)
        assert block.text.startswith(f"# {THEIRS}\n") == is_theirs
        ast.parse(block.text)
    assert len(found) > 2 * len(old) - 1
