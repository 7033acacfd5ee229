"""Files of other families: what they say is honoured, what is damaged is named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from bert_keras.errors import ArtifactError
from bert_keras.tokenizers import Tokenizer
from tests.tokenizers.samples import VOCABULARY


@pytest.fixture
def copy(foreign_folders, tmp_path):
    """`copy(family)`: a folder to be changed."""
    return lambda name: Path(shutil.copytree(foreign_folders[name], tmp_path / name))


def say(folder: Path, **values: object) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps(values), encoding="utf-8")


def test_case_and_accents_of_albert(copy):
    folder = copy("albert")
    uncased = Tokenizer.from_preset(folder)
    assert uncased.text_ids(["Schön"]) == uncased.text_ids(["schon"])
    say(folder, do_lower_case=False, keep_accents=True)
    cased = Tokenizer.from_preset(folder)
    assert cased != uncased
    assert cased.text_ids(["schön"]) != cased.text_ids(["schon"]) != cased.text_ids(["Schon"])
    assert cased.text_ids(["schon"]) == uncased.text_ids(["schon"])


def test_prefix_space(copy):
    folder = copy("roberta")
    plain = Tokenizer.from_preset(folder)
    say(folder, add_prefix_space=True)
    spaced = Tokenizer.from_preset(folder)
    assert spaced.text_ids(["the"]) == plain.text_ids([" the"]) != plain.text_ids(["the"])
    plain.save_to_preset(folder)
    say(folder, add_prefix_space=True)
    assert Tokenizer.from_preset(folder).text_ids(["the"]) == spaced.text_ids(["the"])


def test_roles_that_the_config_gives(copy):
    folder = copy("roberta")
    say(folder, cls_token={"content": "e"}, sep_token="</s>")
    tokenizer = Tokenizer.from_preset(folder)
    assert tokenizer.id_to_token(tokenizer.encode("x").ids[0]) == "e"


def test_wordpiece_with_tokens_of_its_own(tmp_path):
    """What BERT's own tokenizer does not look for in a text, the engine does."""
    import transformers

    Tokenizer(VOCABULARY).save_to_preset(tmp_path)
    theirs = transformers.BertTokenizer.from_pretrained(tmp_path)
    theirs.add_tokens(["<entity>"])
    theirs.save_pretrained(tmp_path)
    ours = Tokenizer.from_preset(tmp_path)
    assert ours.vocab_size == len(VOCABULARY) + 1
    text = "the <entity> wanting [MASK]"
    assert ours.encode(text, "hello").ids == theirs(text, "hello")["input_ids"]
    assert len(VOCABULARY) in ours.text_ids([text])[0]
    assert ours.continuation[VOCABULARY.index("##ing")]
    assert ours.lowercase is None


def test_wordpiece_that_cleans_otherwise(tmp_path):
    Tokenizer(VOCABULARY).save_to_preset(tmp_path)
    for name in ("vocab.txt", "tokenizer_config.json"):
        (tmp_path / name).unlink()
    content = json.loads((tmp_path / "tokenizer.json").read_bytes())
    content["normalizer"] = None
    (tmp_path / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    ours = Tokenizer.from_preset(tmp_path)
    assert ours.encode("The the").tokens == ["[CLS]", "T", "##h", "##e", "the", "[SEP]"]


@pytest.mark.parametrize(
    ("family", "name", "content", "message"),
    [
        ("roberta", "vocab.json", '{"a": 0, "b": 2}', "vocab.json: the ids must be 0, 1, 2"),
        ("roberta", "vocab.json", '{"a": 0, "b": [2]}', "vocab.json: the ids must be 0, 1, 2"),
        ("roberta", "vocab.json", "[]", "vocab.json: expected a JSON object"),
        ("roberta", "merges.txt", None, "merges.txt: missing"),
        ("roberta", "merges.txt", "#version: 0.2\na\n", "merges.txt:2: not two pieces"),
        ("roberta", "merges.txt", "a zz\n", r"merges.txt:1: not two pieces .* 'a zz'"),
        ("roberta", "merges.txt", b"\xff", "merges.txt: not UTF-8"),
        ("roberta", "tokenizer_config.json", '{"mask_token": "no"}', "no mask token"),
        ("albert", "tokenizer_config.json", '{"sep_token": "no"}', "spiece.model: no sep token"),
        ("xlm_roberta", "tokenizer_config.json", '{"sep_token": "no"}', "no sep token"),
    ],
)
def test_damaged(family, name, content, message, copy):
    folder = copy(family)
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ArtifactError, match=message):
        Tokenizer.from_preset(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"post_processor": {"type": "Unheard"}}, "tokenizer.json: not a tokenizer"),
        ({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}, "no pad and no unk"),
        ({"model": {"type": "BPE", "vocab": {"a": 9}, "merges": []}}, "must be 0, 1, 2"),
    ],
)
def test_damaged_engine(change, message, copy):
    folder = copy("roberta")
    Tokenizer.from_preset(folder).save_to_preset(folder)
    content = json.loads((folder / "tokenizer.json").read_bytes())
    if "model" in change:
        content["added_tokens"] = []
    (folder / "tokenizer.json").write_text(json.dumps(content | change), encoding="utf-8")
    with pytest.raises(ArtifactError, match=message):
        Tokenizer.from_preset(folder)


def test_switches_are_for_wordpiece(foreign_folders):
    with pytest.raises(ValueError, match="Only WordPiece takes lowercase"):
        Tokenizer.from_preset(foreign_folders["roberta"], lowercase=True)
