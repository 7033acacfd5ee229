"""Added tokens: ids equal those of transformers, for every kind of tokenizer and every way in."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.errors import ArtifactError
from bert_keras.tokenizers import Tokenizer
from bert_keras.tokenizers.added_tokens import AddedToken, extended
from tests.tokenizers.samples import SWITCHES, TRICKY, VOCABULARY

# Some are pieces, begin like another one, or are changed by normalisation.
WORDS = ("COVID-19", "covid", "wanting", "the", "中国", "new york", "Ünï", "##ing", "a1")
SPECIAL = ("[E1]", "<e>", "Ab", "[unused0]")
TEXTS = (
    *TRICKY,
    "covid-19s COVID-19 Covid19 covid-",
    "theing wanting unwanting new york New  York newyork",
    "[E1]the[E1] [e1] <E> <e>x xAb ab[unused0][MASK]",
    "中国人 中 国 a中国b UNI ünï ##ing a1a11",
)


def _grown(tokenizer: Tokenizer) -> Tokenizer:
    return tokenizer.add_tokens(WORDS).add_tokens(SPECIAL, special=True)


def _check(ours: Tokenizer, theirs: Any, text: str, pieces: int = len(VOCABULARY)) -> None:
    """Compare all ways to ids with the tokenizer of the `tokenizers` library.

    Special tokens with new ids, from the number of pieces on, are ordinary text for `text_ids`.
    """
    encoding = ours.encode(text, add_special_tokens=False)
    expected = theirs.encode(text, add_special_tokens=False)
    assert encoding.ids == expected.ids
    assert encoding.offsets == expected.offsets
    assert ours([text])["token_ids"][0, 1:-1].tolist() == expected.ids
    plain = ours.encode(text, add_special_tokens=False, special_tokens_in_text=False).ids
    assert ours.text_ids([text]) == [plain]
    special = {token.id for token in ours.added_tokens if token.special and token.id >= pieces}
    assert not special.intersection(plain)


@pytest.mark.parametrize("switches", SWITCHES, ids=str)
def test_wordpiece_as_in_transformers(reference: Callable[..., Any], switches: Any) -> None:
    theirs = reference(VOCABULARY, **switches)
    assert theirs.add_tokens([*WORDS]) + theirs.add_tokens([*SPECIAL], special_tokens=True)
    ours = _grown(Tokenizer(VOCABULARY, **switches))
    assert ours.vocab_size == len(theirs)
    assert {t.content: t.id for t in ours.added_tokens}.items() <= theirs.get_vocab().items()
    for text in TEXTS:
        _check(ours, theirs.backend_tokenizer, text)
    # Texts with and without added tokens in one call.
    assert ours.text_ids(TEXTS) == [ours.text_ids([text])[0] for text in TEXTS]
    assert ours.decode(ours.encode("the [E1] COVID-19").ids) == theirs.decode(
        theirs("the [E1] COVID-19")["input_ids"], skip_special_tokens=True
    )


_PARTS = st.sampled_from(
    (*WORDS, *SPECIAL, "cov", "id", "-", " ", "the", "U\u0308ni", "q", "[MASK]")
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text("ab中 -", min_size=1, max_size=4), unique=True, max_size=4),
    st.lists(_PARTS | st.text("abAB中 -\u0301", max_size=6), max_size=8).map("".join),
    st.booleans(),
)
def test_any_tokens_in_any_text(
    reference: Callable[..., Any], tokens: list[str], text: str, special: bool
) -> None:
    theirs = reference(VOCABULARY)
    theirs.add_tokens(tokens, special_tokens=special)
    ours = Tokenizer(VOCABULARY).add_tokens(tokens, special=special)
    _check(ours, theirs.backend_tokenizer, text)


def test_other_kinds_as_in_transformers(foreign_folders: dict[str, Path]) -> None:
    """Byte-level BPE and SentencePiece tokenizers match added tokens as the library does."""
    import tokenizers as library

    for name, folder in foreign_folders.items():
        opened = Tokenizer.from_preset(folder)
        theirs = library.Tokenizer.from_str(opened._kind.json)
        theirs.add_tokens([*WORDS])
        theirs.add_special_tokens([*SPECIAL])
        ours = _grown(opened)
        assert ours.vocab_size == theirs.get_vocab_size(), name
        for text in TEXTS:
            _check(ours, theirs, text, opened.vocab_size)
        assert not ours.continuation[ours.token_to_id("covid")]
        assert ours.scheme == opened.scheme


def _kinds(folders: dict[str, Path]) -> dict[str, Tokenizer]:
    opened = {name: Tokenizer.from_preset(folder) for name, folder in folders.items()}
    return {"bert": Tokenizer(VOCABULARY), **opened}


def test_saved_and_pickled(foreign_folders: dict[str, Path], tmp_path: Path) -> None:
    """A saved tokenizer is equal, also in transformers; so is a pickled one."""
    transformers = pytest.importorskip("transformers")
    for name, before in _kinds(foreign_folders).items():
        ours = _grown(before)
        assert ours != before
        assert ours.fingerprint != before.fingerprint
        assert before.vocab_size < ours.vocab_size
        ours.save_to_preset(tmp_path / name)
        for other in (pickle.loads(pickle.dumps(ours)), Tokenizer.from_preset(tmp_path / name)):
            assert other == ours, name
            assert other.added_tokens == ours.added_tokens
            assert other.lowercase == ours.lowercase
        theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / name)
        for text in TEXTS:
            assert theirs(text)["input_ids"] == ours.encode(text).ids, (name, text)
        # The way back: a folder that transformers wrote.
        theirs.save_pretrained(tmp_path / "theirs")
        assert Tokenizer.from_preset(tmp_path / "theirs").encode(TEXTS[-1]) == ours.encode(
            TEXTS[-1]
        )


@pytest.mark.parametrize("way", ["added_tokens.json", "decoder", "written here"])
def test_a_folder_without_tokenizer_json(way: str, tmp_path: Path) -> None:
    """Slow tokenizers of transformers wrote these files."""
    transformers = pytest.importorskip("transformers")
    size = len(VOCABULARY)
    if way == "written here":
        _grown(Tokenizer(VOCABULARY)).save_to_preset(tmp_path)
        (tmp_path / "tokenizer.json").unlink()
    else:
        Path(tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY), encoding="utf-8")
        content: dict[str, Any] = {"COVID-19": size, "wanting": size + 1}
        if way == "decoder":
            flags = {"special": False, "normalized": True}
            tokens = {str(n): {"content": token, **flags} for token, n in content.items()}
            content = {"tokenizer_class": "BertTokenizer", "added_tokens_decoder": tokens}
        name = "tokenizer_config.json" if way == "decoder" else way
        (tmp_path / name).write_text(json.dumps(content), encoding="utf-8")
    ours = Tokenizer.from_preset(tmp_path)
    theirs = transformers.BertTokenizer.from_pretrained(tmp_path)
    assert ours.vocab_size == len(theirs) > size
    for text in TEXTS:
        assert ours.encode(text).ids == theirs(text)["input_ids"], text


def test_other_families_of_slow_tokenizers(
    foreign_folders: dict[str, Path], tmp_path: Path
) -> None:
    for name, folder in foreign_folders.items():
        target = tmp_path / name
        target.mkdir()
        for path in folder.iterdir():
            (target / path.name).write_bytes(path.read_bytes())
        size = Tokenizer.from_preset(target).vocab_size
        (target / "added_tokens.json").write_text(json.dumps({"covid": size}), encoding="utf-8")
        assert Tokenizer.from_preset(target).encode("a covid").ids[-2] == size


def test_the_tokenizer_itself_does_not_change() -> None:
    before = Tokenizer(VOCABULARY)
    after = before.add_tokens(["covid"])
    assert before.token_to_id("covid") is None
    assert after.token_to_id("covid") == len(VOCABULARY)
    assert after.id_to_token(len(VOCABULARY)) == "covid"
    assert after.encode("COVID").tokens == ["[CLS]", "covid", "[SEP]"]
    assert after.add_tokens(["covid"]) == after == pickle.loads(pickle.dumps(after))
    assert after.add_tokens([]) == after
    # Special tokens of the tokenizer stay as they are.
    assert after.add_tokens(["[MASK]"]) == after
    # The options of an added token may change; it keeps its id.
    special = after.add_tokens(["covid"], special=True)
    assert special.vocab_size == after.vocab_size
    assert special.text_ids(["covid"]) == before.text_ids(["covid"])


@pytest.mark.parametrize("tokens", ["covid", [3], [None]])
def test_tokens_of_other_types(tokens: Any) -> None:
    with pytest.raises(TypeError, match=r"must be a (list of strings|string)"):
        Tokenizer(VOCABULARY).add_tokens(tokens)


@pytest.mark.parametrize("token", ["", "a\ud800"])
def test_tokens_that_no_text_has(token: str) -> None:
    with pytest.raises(ValueError, match=r"`tokens`\[1\]"):
        Tokenizer(VOCABULARY).add_tokens(["x", token])


def test_ids_that_do_not_follow(tmp_path: Path) -> None:
    """A gap, a piece with another id, and a token that is there twice are refused."""
    size = len(VOCABULARY)
    Path(tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY), encoding="utf-8")
    for content in ({"x": size + 1}, {"x": 0}, {"the": size}, {"x": "y"}):
        (tmp_path / "added_tokens.json").write_text(json.dumps(content), encoding="utf-8")
        with pytest.raises(ArtifactError, match=r"added token"):
            Tokenizer.from_preset(tmp_path)


def test_tokens_are_ordered_by_id() -> None:
    ids = {"a": 0, "b": 1}
    added = extended((), ids, ["c", "b", "[X]", "c"], special=False, protected=["[X]"])
    assert added == (AddedToken("b", 1), AddedToken("c", 2))
