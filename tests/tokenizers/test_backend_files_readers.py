"""Tokenizer files of other families: settings are honoured, damaged files are named."""

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
    """Return a function that copies the folder of a family, to be changed."""
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


def test_wordpiece_with_tokens_of_its_own(transformers, tmp_path):
    """A WordPiece with added tokens finds them within a text, as transformers does."""
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
    assert ours.lowercase


def test_wordpiece_that_cleans_otherwise(tmp_path):
    """A WordPiece without a normalizer is read with its own rules."""
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
        (
            "roberta",
            "vocab.json",
            '{"a": 0, "b": 2}',
            "vocab.json: the ids of the pieces",
        ),
        (
            "roberta",
            "vocab.json",
            '{"a": 0, "b": [2]}',
            "vocab.json: the ids of the pieces",
        ),
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


def changed_engine(folder: Path, **changes: object) -> Path:
    """Leave only RoBERTa's tokenizer.json in the folder, and change some parts of it."""
    Tokenizer.from_preset(folder).save_to_preset(folder)
    content = json.loads((folder / "tokenizer.json").read_bytes())
    for name in ("vocab.json", "merges.txt", "tokenizer_config.json", "special_tokens_map.json"):
        (folder / name).unlink()
    for part, change in changes.items():
        is_merged = isinstance(change, dict) and isinstance(content[part], dict)
        content[part] = content[part] | change if is_merged else change
    (folder / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def added(content: str, index: int, *, special: bool) -> dict[str, object]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": index, "content": content, "special": special, **flags}


def test_ids_are_the_same_with_and_without_special_tokens(copy):
    """Added tokens keep their ids if special tokens before them are not looked for."""
    size = Tokenizer.from_preset(copy("roberta")).vocab_size
    tokens = [added("<x>", size, special=True), added("<y>", size + 1, special=False)]
    folder = changed_engine(copy("albert").parent / "roberta", added_tokens=tokens)
    tokenizer = Tokenizer.from_preset(folder)
    assert tokenizer.text_ids(["<y>"]) == [[size + 1]]
    assert tokenizer.encode("<y>", add_special_tokens=False).ids == [size + 1]
    assert size not in tokenizer.text_ids(["<x>"])[0]
    assert tokenizer.encode("<x>", add_special_tokens=False).ids == [size]


def test_special_tokens_that_the_file_does_not_look_for(copy):
    tokenizer = Tokenizer.from_preset(changed_engine(copy("roberta"), added_tokens=[]))
    ids = tokenizer.encode("the <mask>").ids
    assert ids[-2] == tokenizer.mask_id
    assert tokenizer.decode(ids) == "the"
    assert tokenizer.mask_id not in tokenizer.text_ids(["the <mask>"])[0]


def test_a_model_that_matches_whole_words_finds_no_special_token(copy):
    start = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    folder = changed_engine(
        copy("roberta"),
        model={"ignore_merges": True},
        pre_tokenizer={**start, "use_regex": False},
    )
    tokenizer = Tokenizer.from_preset(folder)
    assert tokenizer.mask_id not in tokenizer.text_ids(["<mask>"])[0]
    assert tokenizer.mask_id in tokenizer.encode("<mask>").ids


@pytest.mark.parametrize("told", [True, False])
def test_the_places_are_the_familys_where_no_file_tells_them(told: bool, copy):
    """If no file tells the places of special tokens, those of the family are used."""
    folder = changed_engine(copy("roberta"), post_processor=None)
    if told:
        roles = {"pad": "<pad>", "unk": "<unk>", "cls": "<s>", "sep": "</s>", "mask": "<mask>"}
        say(folder, **{f"{role}_token": token for role, token in roles.items()})
    tokenizer = Tokenizer.from_preset(folder)
    assert (tokenizer.scheme.separators, tokenizer.scheme.two_segments) == (2, False)
    tokenizer.save_to_preset(folder)
    assert Tokenizer.from_preset(folder) == tokenizer


def test_nothing_is_drawn(copy):
    """BPE dropout in tokenizer.json does not make ids random."""
    tokenizer = Tokenizer.from_preset(changed_engine(copy("roberta"), model={"dropout": 0.9}))
    text = "the lowest tower lowered the newest flower"
    assert len({tuple(tokenizer.encode(text).ids) for _ in range(20)}) == 1


def test_switches_count_beside_added_tokens(transformers, tmp_path):
    Tokenizer(VOCABULARY).save_to_preset(tmp_path)
    theirs = transformers.BertTokenizer.from_pretrained(tmp_path)
    theirs.add_tokens(["<entity>"])
    theirs.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_bytes())
    say(tmp_path, **config | {"do_lower_case": False, "strip_accents": False})
    assert Tokenizer.from_preset(tmp_path).encode("The").tokens[1] == "T"


def test_roles_in_the_special_tokens_map(copy):
    folder = changed_engine(copy("roberta"))
    roles = {"cls_token": "e", "mask_token": {"content": "<mask>"}}
    (folder / "special_tokens_map.json").write_text(json.dumps(roles))
    assert Tokenizer.from_preset(folder).scheme.cls == "e"
    say(folder, cls_token="<s>")
    assert Tokenizer.from_preset(folder).scheme.cls == "<s>"


@pytest.mark.parametrize(
    ("family", "config", "message"),
    [
        ("roberta", {"cls_token": 5}, "tokenizer_config.json: cls_token must be a text"),
        ("roberta", {"mask_token": "<s>"}, "one special token has several roles"),
        ("roberta", {"add_prefix_space": "no"}, "config.json: add_prefix_space must be true or"),
        ("albert", {"tokenizer_class": "T5Tokenizer"}, "needs another tokenizer"),
        ("albert", {"keep_accents": 1}, "keep_accents must be true or false"),
        ("xlm_roberta", {"tokenizer_class": "BarthezTokenizer"}, "needs another tokenizer"),
        ("xlm_roberta", {"tokenizer_class": ["x"]}, "needs another tokenizer"),
    ],
)
def test_bad_configs(family: str, config: dict, message: str, copy):
    folder = copy(family)
    say(folder, **config)
    with pytest.raises(ArtifactError, match=message):
        Tokenizer.from_preset(folder)


def test_an_engine_that_has_no_word_for_the_unknown(copy):
    """A tokenizer.json without an unknown token is refused."""
    folder = copy("albert")
    Tokenizer.from_preset(folder).save_to_preset(folder)
    content = json.loads((folder / "tokenizer.json").read_bytes())
    content["model"]["unk_id"] = None
    (folder / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ArtifactError, match=r"model.unk_id must tell"):
        Tokenizer.from_preset(folder)


def test_xlm_r_begins_with_its_own_tokens(foreign_folders, tmp_path):
    shutil.copy(foreign_folders["albert"] / "spiece.model", tmp_path / "sentencepiece.bpe.model")
    with pytest.raises(ArtifactError, match="of this name begins with <unk>, <s>, </s>"):
        Tokenizer.from_preset(tmp_path)
