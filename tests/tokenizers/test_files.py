"""Tokenizer folders: written for other libraries, read from them, and refused if damaged."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import pytest
from tokenizers import Tokenizer as Engine
from tokenizers import models, normalizers

from bert_keras.errors import ArtifactError, DataError
from bert_keras.tokenizers import Tokenizer, files
from bert_keras.tokenizers import files as module
from bert_keras.tokenizers.vocabulary import SPECIAL_TOKENS
from tests.tokenizers.samples import SWITCHES, TRICKY, VOCABULARY

SPECIALS = "\n".join(SPECIAL_TOKENS) + "\n"


@pytest.mark.parametrize("switches", SWITCHES, ids=str)
def test_round_trip(switches, tmp_path, reference):
    transformers = pytest.importorskip("transformers")
    tokenizer = Tokenizer(VOCABULARY, **switches)
    tokenizer.save_to_preset(tmp_path / "new" / "folder")
    folder = (tmp_path / "new").rename(tmp_path / "moved") / "folder"
    assert Tokenizer.from_preset(folder) == tokenizer
    written = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert sorted(written) == [
        "special_tokens_map.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "vocab.txt",
    ]
    tokenizer.save_to_preset(str(folder))
    assert written == {path.name: path.read_bytes() for path in folder.iterdir()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # transformers does not close its files.
        others = [
            opener.from_pretrained(folder)
            for opener in (transformers.BertTokenizer, transformers.AutoTokenizer)
        ]
    import tokenizers

    engine = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    for text in TRICKY:
        ids = tokenizer.encode(text, "hello").ids
        assert engine.encode(text, "hello").ids == ids
        for other in others:
            assert other(text, "hello")["input_ids"] == ids

    for path in folder.iterdir():
        if path.name != "tokenizer.json":
            path.unlink()
    assert Tokenizer.from_preset(folder) == tokenizer


def test_opens_what_transformers_writes(tmp_path, reference):
    for index, switches in enumerate(SWITCHES):
        theirs = reference(VOCABULARY, **switches)
        theirs.save_pretrained(tmp_path / str(index))
        opened = Tokenizer.from_preset(tmp_path / str(index))
        assert opened == Tokenizer(VOCABULARY, **switches)


def test_the_engine_says_how_the_text_was_cased(tmp_path):
    """Without tokenizer_config.json the case comes from tokenizer.json.

    Older folders have vocab.txt and tokenizer.json alone.
    """
    cased = Tokenizer(VOCABULARY, lowercase=False, strip_accents=False)
    cased.save_to_preset(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    assert Tokenizer.from_preset(tmp_path) == cased


def test_opens_a_bare_vocabulary(tmp_path):
    (tmp_path / "vocab.txt").write_bytes((SPECIALS + "\u2028\nthe\n##s").encode())
    tokenizer = Tokenizer.from_preset(str(tmp_path))
    assert tokenizer == Tokenizer([*SPECIAL_TOKENS, "\u2028", "the", "##s"])
    (tmp_path / "vocab.txt").write_bytes(
        (SPECIALS + "\u2028\nthe\n##s\n").replace("\n", "\r\n").encode()
    )
    assert Tokenizer.from_preset(tmp_path) == tokenizer


@pytest.mark.parametrize("cased", [["The", "##ing"], []])
def test_assets_of_a_saved_model(cased: list[str], tmp_path):
    """The vocabulary of a SavedModel shows by its words if it is cased.

    A SavedModel has no other file of the tokenizer.
    """
    vocabulary = [*SPECIAL_TOKENS, "the", "A", *cased]
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    assert Tokenizer.from_preset(tmp_path) == Tokenizer(vocabulary, lowercase=not cased)
    assert Tokenizer.from_preset(tmp_path, lowercase=True) == Tokenizer(
        vocabulary, strip_accents=True
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "vocab.txt: the vocabulary is empty"),
        (b"\n", "vocab.txt:1: a blank entry"),
        (SPECIALS.encode() + b"a\0b\n", "vocab.txt:6: line break, NUL or lone surrogate"),
        (SPECIALS.encode() + b"a\n\nb\n", "vocab.txt:7: a blank entry"),
        (SPECIALS.encode() + b"a\n\n", "vocab.txt:7: a blank entry"),
        (SPECIALS.encode() + b"a\nb\na\n", "vocab.txt:8: 'a' is also at .*vocab.txt:6"),
        (SPECIALS.encode() + b"a\rb\n", r"vocab.txt:6: line break, .* Received: 'a\\rb'"),
        (SPECIALS.encode() + b"a\ncaf\xe9\n", r"vocab.txt:7: not UTF-8. .*xe9"),
        (b"\xef\xbb\xbf" + SPECIALS.encode(), "vocab.txt:1: starts with a byte order mark"),
        (b"[PAD]\n[UNK]\n[SEP]\na\n", r"vocab.txt: lacks \[CLS\], \[MASK\]. Received: 4 entries"),
    ],
)
def test_bad_vocabulary(content, message, tmp_path):
    (tmp_path / "vocab.txt").write_bytes(content)
    with pytest.raises(DataError, match=message):
        Tokenizer.from_preset(tmp_path)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("{", "tokenizer_config.json: not JSON"),
        (b"\xff{}", "tokenizer_config.json: not JSON"),
        ("[]", "expected a JSON object. Received: list"),
        ({"do_lower_case": "no"}, "do_lower_case must be true or false. Received: 'no'"),
        ({"do_lower_case": None}, "do_lower_case must be true or false. Received: None"),
        ({"tokenizer_class": "BertJapaneseTokenizer"}, "needs another tokenizer"),
        ({"added_tokens_decoder": {"9": {"content": "<x>"}}}, r"ids of added .*'<x>', 9"),
    ],
)
def test_bad_config(config, message, tmp_path):
    (tmp_path / "vocab.txt").write_text(SPECIALS, encoding="utf-8")
    if isinstance(config, dict):
        config = json.dumps(config)
    content = config if isinstance(config, bytes) else config.encode()
    (tmp_path / "tokenizer_config.json").write_bytes(content)
    with pytest.raises(ArtifactError, match=message):
        Tokenizer.from_preset(tmp_path)


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("model", {"type": "BPE"}, "not a tokenizer: "),
        ("model", {"vocab": {"[PAD]": 0, "[UNK]": 2}}, "must be 0, 1, 2"),
        ("model", {"vocab": ["[PAD]"]}, "not a tokenizer: "),
        ("model", ["a", "list"], "not a tokenizer: "),
        ("added_tokens", [{"id": 9, "content": "<x>"}], r"ids of added .*'<x>', 9"),
        ("added_tokens", [{"content": "<x>"}], "an added token must have content, id"),
        ("normalizer", {"lowercase": 1}, "lowercase must be true or false. Received: 1"),
        ("pre_tokenizer", {"type": "Unheard"}, "not a tokenizer: "),
    ],
)
def test_bad_engine(part, change, message, tmp_path, tokenizer):
    tokenizer.save_to_preset(tmp_path)
    content = json.loads((tmp_path / "tokenizer.json").read_bytes())
    content[part] = content[part] | change if isinstance(change, dict) else change
    (tmp_path / "vocab.txt").unlink()
    (tmp_path / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ArtifactError, match=message):
        Tokenizer.from_preset(tmp_path)


def test_nothing_there(tmp_path):
    with pytest.raises(
        ArtifactError,
        match=r"has none of vocab.txt, tokenizer.json, vocab.json",
    ):
        Tokenizer.from_preset(tmp_path)
    with pytest.raises(ArtifactError, match="no such folder"):
        Tokenizer.from_preset(tmp_path / "missing")


def test_two_vocabularies_in_a_folder(tokenizer, tmp_path):
    tokenizer.save_to_preset(tmp_path)
    (tmp_path / "vocab.txt").write_text(SPECIALS, encoding="utf-8")
    with pytest.raises(ArtifactError, match=r"vocab.txt: not the vocabulary of tokenizer.json"):
        Tokenizer.from_preset(tmp_path)


def test_other_special_tokens_than_berts(transformers, tmp_path):
    """A vocab.txt whose settings state other special tokens is read with these."""
    tokens = {"cls_token": "<s>", "mask_token": {"content": "<m>", "lstrip": False}}
    pieces = "\n".join((*VOCABULARY, "<s>", "<m>"))
    (tmp_path / "vocab.txt").write_text(pieces, encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"cls_token": "<s>"}))
    (tmp_path / "special_tokens_map.json").write_text(json.dumps(tokens))
    ours = Tokenizer.from_preset(tmp_path)
    theirs = transformers.BertTokenizer.from_pretrained(tmp_path, mask_token="<m>")
    for pair in ("hello", "Want <s> <m>UNwantéd [CLS]"):
        assert ours.encode("the <m> world", pair).ids == theirs("the <m> world", pair)["input_ids"]
    (tmp_path / "vocab.txt").write_text(SPECIALS, encoding="utf-8")
    with pytest.raises(ArtifactError, match=r"vocab.txt: no cls and no mask token"):
        Tokenizer.from_preset(tmp_path)


def test_special_tokens_elsewhere_than_berts(tmp_path):
    """A WordPiece whose pairs have two separators, like RoBERTa's, is read with both."""
    Tokenizer(VOCABULARY).save_to_preset(tmp_path)
    path = tmp_path / "tokenizer.json"
    content = json.loads(path.read_text())
    pair = content["post_processor"]["pair"]
    separator = pair[2]
    assert separator["SpecialToken"]["id"] == "[SEP]"
    pair.insert(2, separator)
    path.write_text(json.dumps(content))
    (tmp_path / "vocab.txt").unlink()
    opened = Tokenizer.from_preset(tmp_path)
    assert opened.scheme.separators == 2
    plain, more = (t.encode("hello", "world").ids for t in (Tokenizer(VOCABULARY), opened))
    assert len(more) == len(plain) + 1


def test_numbers_of_every_kind_in_a_tokenizer_json(tmp_path):
    """A wrong number in tokenizer.json is refused with one message, if the number is used."""
    Tokenizer(SPECIAL_TOKENS).save_to_preset(tmp_path)
    (tmp_path / "vocab.txt").unlink()
    path = tmp_path / "tokenizer.json"
    text = path.read_text()
    places = [*_places(json.loads(text))]
    assert len(places) > 50
    refused = 0
    for place in places:
        for value in (None, [8], {"a": 1}, "8", 2.5, True, -1, 10**30, 10**400):
            content = part = json.loads(text)
            for key in place[:-1]:
                part = part[key]
            part[place[-1]] = value
            path.write_text(json.dumps(content))
            try:
                Tokenizer.from_preset(tmp_path)
            except (ArtifactError, DataError):
                refused += 1
    assert refused > 200


def _places(part, before=()):
    """Yield the path of keys to each value, at every depth."""
    items = part.items() if isinstance(part, dict) else enumerate(part)
    for key, value in items:
        yield (*before, key)
        if isinstance(value, dict | list):
            yield from _places(value, (*before, key))


# === The place and the case of tokenizers in folders of sentence-transformers ===


_CASED = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "Word", "word", "é", "e", "É"]


def _rows(path: Path, name: object) -> None:
    (path / "modules.json").write_text(json.dumps([{"type": "x.Transformer", "path": name}]))


def test_the_folder_of_the_transformer(tmp_path: Path) -> None:
    assert module.transformer_folder(tmp_path) == tmp_path
    for name in ("", 7):
        _rows(tmp_path, name)
        assert module.transformer_folder(tmp_path) == tmp_path
    Tokenizer(_CASED).save_to_preset(tmp_path / "0_Transformer")
    _rows(tmp_path, "0_Transformer")
    assert module.transformer_folder(tmp_path) == tmp_path / "0_Transformer"
    assert Tokenizer.from_preset(tmp_path) == Tokenizer(_CASED)
    for name in ("../x", "/x", "a/../../x", "c:x", "a\\..\\x"):
        _rows(tmp_path, name)
        with pytest.raises(ArtifactError, match="outside the folder"):
            Tokenizer.from_preset(tmp_path)


@pytest.mark.parametrize("name", module.SENTENCE_CONFIGS)
def test_do_lower_case(name: str, tmp_path: Path) -> None:
    """`do_lower_case` lower-cases the text first and keeps accents.

    This is what sentence-transformers does.
    """
    Tokenizer(_CASED, lowercase=False).save_to_preset(tmp_path)
    plain = Tokenizer.from_preset(tmp_path)
    assert plain.encode("Word É").tokens == ["[CLS]", "Word", "É", "[SEP]"]
    for told, tokens in ((False, ["Word", "É"]), (None, ["Word", "É"]), (True, ["word", "é"])):
        (tmp_path / name).write_text(json.dumps({"do_lower_case": told}))
        assert Tokenizer.from_preset(tmp_path).encode("Word É").tokens[1:-1] == tokens
    (tmp_path / name).write_text(json.dumps({"do_lower_case": "yes"}))
    with pytest.raises(ArtifactError, match="do_lower_case must be true or false"):
        Tokenizer.from_preset(tmp_path)


def test_an_uncased_tokenizer_stays_as_it_is(tmp_path: Path) -> None:
    Tokenizer(_CASED).save_to_preset(tmp_path)
    (tmp_path / "sentence_bert_config.json").write_text('{"do_lower_case": true}')
    assert Tokenizer.from_preset(tmp_path) == Tokenizer(_CASED)


@pytest.mark.parametrize("steps", [None, "one", "several", "lower"])
def test_other_engines_lower_case_first(steps: str | None, tmp_path: Path) -> None:
    """With `do_lower_case` BPE tokenizers lower-case the text first, but only once."""
    ids = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "<mask>": 4, "w": 5, "W": 6}
    engine = Engine(models.BPE(ids, []))
    if steps == "lower":
        engine.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    elif steps:
        parts = [normalizers.NFC(), normalizers.Strip()]
        engine.normalizer = parts[0] if steps == "one" else normalizers.Sequence(parts)
    engine.save(str(tmp_path / "tokenizer.json"))
    plain = Tokenizer.from_preset(tmp_path)
    assert plain.encode("W").ids[1] == (5 if steps == "lower" else 6)
    (tmp_path / "sentence_bert_config.json").write_text('{"do_lower_case": true}')
    lowered = Tokenizer.from_preset(tmp_path)
    assert lowered.encode("W").ids[1] == 5
    assert (lowered == plain) == (steps == "lower")


# === KerasHub presets: tokenizers from the vocabulary among the assets ===


FILES = {
    "roberta": {"vocab.json": "vocabulary.json", "merges.txt": "merges.txt"},
    "albert": {"spiece.model": "vocabulary.spm"},
    "xlm_roberta": {"sentencepiece.bpe.model": "vocabulary.spm"},
}
_WORDPIECE = ("Bert", "DistilBert", "Electra")


def write(folder, class_name: str, **config: object):
    """Write the tokenizer.json of a KerasHub preset. Return its folder for assets."""
    assets = folder / "assets" / "tokenizer"
    assets.mkdir(parents=True)
    content = {"registered_name": f"keras_hub>{class_name}", "class_name": class_name}
    (folder / "tokenizer.json").write_text(json.dumps({**content, "config": config}))
    return assets


@pytest.mark.parametrize("lowercase", [True, False])
def test_wordpiece_that_keras_hub_wrote(lowercase: bool, tmp_path):
    keras_hub = pytest.importorskip("keras_hub", reason="needs KerasHub")
    vocabulary = list(VOCABULARY)
    theirs = keras_hub.models.BertTokenizer(vocabulary, lowercase=lowercase)
    theirs.save_to_preset(str(tmp_path))
    assert Tokenizer.from_preset(tmp_path) == Tokenizer(VOCABULARY, lowercase=lowercase)


@pytest.mark.parametrize("family", FILES)
def test_other_families(family: str, foreign_folders, tmp_path):
    class_name = "XLMRobertaTokenizer" if family == "xlm_roberta" else "Tokenizer"
    assets = write(tmp_path, class_name)
    for name, theirs in FILES[family].items():
        shutil.copy(foreign_folders[family] / name, assets / theirs)
    expected = Tokenizer.from_preset(foreign_folders[family])
    assert Tokenizer.from_preset(tmp_path) == expected


def test_no_vocabulary(tmp_path):
    write(tmp_path, "BertTokenizer", lowercase=True)
    with pytest.raises(ArtifactError, match=r"tokenizer: no vocabulary.txt, .*'BertTokenizer'"):
        Tokenizer.from_preset(tmp_path)


def test_every_key_of_keras_hub_is_known(keras_hub, foreign_folders, tmp_path):
    """Each key that KerasHub's tokenizers write is known, and an unknown key is refused."""
    pieces = {token: i for i, token in enumerate(("<s>", "<pad>", "</s>", "<unk>", "a", "aa"))}
    byte_level = {"vocabulary": {**pieces, "<mask>": 6}, "merges": ["a a"]}
    models = {
        **{f"{name}Tokenizer": {"vocabulary": [*VOCABULARY]} for name in _WORDPIECE},
        "RobertaTokenizer": byte_level,
        "AlbertTokenizer": {"proto": (foreign_folders["albert"] / "spiece.model").read_bytes()},
        "XLMRobertaTokenizer": {
            "proto": (foreign_folders["xlm_roberta"] / "sentencepiece.bpe.model").read_bytes()
        },
    }
    known = {*files.HONOURED, *files.IRRELEVANT}
    for name, arguments in models.items():
        written = getattr(keras_hub.models, name)(**arguments).get_config()
        unknown = sorted(set(written) - known)
        assert not unknown, f"{name}: give {unknown} a reason in `keras_hub_files`"
    write(tmp_path, "BertTokenizer", lowercase=True, colour=1)
    with pytest.raises(ArtifactError, match=r"tokenizer\.json: unknown keys: 'colour'"):
        Tokenizer.from_preset(tmp_path)
