"""The tokenizer, compared with transformers' BertTokenizer, and its own guarantees."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.errors import DataError
from bert_keras.tokenizers import Encoding, Tokenizer
from bert_keras.tokenizers.vocabulary import SPECIAL_TOKENS
from tests.tokenizers.samples import SWITCHES, TRICKY, VOCABULARY

any_text = st.lists(st.text(max_size=8) | st.sampled_from(TRICKY), max_size=6).map(" ".join)
broken_text = st.text(st.characters(exclude_categories=()) | st.characters(categories=["Cs"]))


def assert_same(ours: Encoding, theirs: Any) -> None:
    """Check each part of an encoding against that of transformers."""
    assert ours.ids == theirs["input_ids"]
    assert ours.segment_ids == theirs["token_type_ids"]
    assert ours.offsets == [tuple(pair) for pair in theirs["offset_mapping"]]
    assert ours.special_tokens_mask == theirs["special_tokens_mask"]
    assert ours.tokens == theirs.tokens()
    assert ours.word_ids == theirs.word_ids()


ALL = {"return_offsets_mapping": True, "return_special_tokens_mask": True}


@pytest.mark.parametrize("switches", SWITCHES, ids=str)
def test_equals_transformers(switches, reference):
    ours, theirs = Tokenizer(VOCABULARY, **switches), reference(VOCABULARY, **switches)
    assert ours.text_ids(TRICKY) == [
        theirs(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        for text in TRICKY
    ]
    for text in TRICKY:
        assert_same(ours.encode(text), theirs(text, **ALL))
        bare = ours.encode(text, add_special_tokens=False)
        assert_same(bare, theirs(text, add_special_tokens=False, **ALL))
        plain = ours.encode(text, special_tokens_in_text=False)
        assert_same(plain, theirs(text, split_special_tokens=True, **ALL))
        ids = ours.encode(text).ids
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)
        assert ours.decode(np.array(ids), False) == theirs.decode(ids)


@pytest.mark.parametrize("add_special_tokens", [True, False])
def test_pairs_equal_transformers(add_special_tokens, tokenizer, reference):
    theirs = reference(VOCABULARY)
    for text, pair in zip(TRICKY, TRICKY[::-1], strict=True):
        if pair:  # transformers treats an empty second text as none.
            ours = tokenizer.encode(text, pair, add_special_tokens=add_special_tokens)
            assert_same(ours, theirs(text, pair, add_special_tokens=add_special_tokens, **ALL))


@settings(deadline=None, derandomize=True, max_examples=400)
@given(
    text=any_text, pair=any_text, max_length=st.integers(3, 40), switch=st.sampled_from(SWITCHES)
)
def test_any_text_equals_transformers(text, pair, max_length, switch, reference_pairs):
    ours, theirs = reference_pairs(switch)
    assert_same(ours.encode(text), theirs(text, **ALL))
    assert ours.text_ids([text])[0] == theirs.encode(
        text, add_special_tokens=False, split_special_tokens=True
    )
    if pair:
        kwargs = {"max_length": max_length}
        assert_same(
            ours.encode(text, pair, **kwargs), theirs(text, pair, truncation=True, **kwargs, **ALL)
        )


@settings(deadline=None, derandomize=True, max_examples=400)
@given(text=any_text | broken_text)
def test_is_total_and_offsets_stay_inside(text, tokenizer):
    """Any text is encoded, and offsets ascend within the text."""
    encoding = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer([text])["token_ids"].tolist() == [tokenizer.encode(text).ids]
    starts = [start for start, _ in encoding.offsets]
    assert starts == sorted(starts)
    assert all(0 <= start <= end <= len(text) for start, end in encoding.offsets)
    plain = tokenizer.encode(text, add_special_tokens=False, special_tokens_in_text=False)
    assert tokenizer.text_ids([text]) == [plain.ids]
    assert isinstance(tokenizer.decode(encoding.ids), str)


@pytest.fixture(scope="module")
def reference_pairs(reference):
    """Return a function from options to the tokenizers of this package and of transformers."""
    pairs = {
        str(switch): (Tokenizer(VOCABULARY, **switch), reference(VOCABULARY, **switch))
        for switch in SWITCHES
    }
    return lambda switch: pairs[str(switch)]


def test_offsets_are_characters_of_the_text(tokenizer):
    text = "😀 UNWANT\u0301ing 中the"
    encoding = tokenizer.encode(text)
    pieces = [text[start:end] for start, end in encoding.offsets]
    assert encoding.tokens == ["[CLS]", "[UNK]", "un", "##want", "##ing", "中", "the", "[SEP]"]
    assert pieces == ["", "😀", "UN", "WANT", "ing", "中", "the", ""]
    assert encoding.word_ids == [None, 0, 1, 1, 1, 2, 3, None]
    assert len(encoding) == 8


def test_lone_surrogates_vanish(tokenizer):
    broken = tokenizer.encode("the \ud800wor\udfffld")
    assert broken.ids == tokenizer.encode("the world").ids
    assert broken.offsets[2] == (5, 11)
    assert tokenizer.text_ids(["the wor\ud800ld"]) == tokenizer.text_ids(["the world"])


def test_batch(tokenizer):
    texts, pairs = ["the world", "hello [MASK]"], ["", "the world the world"]
    batch = tokenizer(texts, pairs, max_length=7)
    assert list(batch) == ["token_ids", "segment_ids", "padding_mask"]
    assert {array.dtype for array in batch.values()} == {np.dtype("int32")}
    for row, (text, pair) in enumerate(zip(texts, pairs, strict=True)):
        encoding = tokenizer.encode(text, pair, max_length=7)
        n = len(encoding)
        assert batch["token_ids"][row].tolist() == encoding.ids + [0] * (7 - n)
        assert batch["segment_ids"][row].tolist() == encoding.segment_ids + [0] * (7 - n)
        assert batch["padding_mask"][row].tolist() == [1] * n + [0] * (7 - n)
    assert tokenizer(texts)["token_ids"].shape == (2, 4)
    assert tokenizer(texts, max_length=9, padding="max_length")["token_ids"].shape == (2, 9)
    assert tokenizer([])["token_ids"].shape == (0, 0)


def test_names_and_numbers(tokenizer):
    assert tokenizer.vocabulary == VOCABULARY
    assert tokenizer.vocab_size == len(VOCABULARY) == len(tokenizer.continuation)
    assert [tokenizer.id_to_token(i) for i in tokenizer.special_ids] == list(SPECIAL_TOKENS)
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id) == (0, 2, 3)
    assert (tokenizer.sep_id, tokenizer.mask_id) == (4, 5)
    assert tokenizer.token_to_id("##ing") == VOCABULARY.index("##ing")
    assert tokenizer.token_to_id("nothing") is None
    assert tokenizer.continuation.dtype == np.bool_
    assert tokenizer.continuation.tolist() == [t.startswith("##") for t in VOCABULARY]
    assert tokenizer.subword_prefix == "##"
    assert (tokenizer.lowercase, tokenizer.strip_accents, tokenizer.split_cjk) == (True,) * 3
    assert Tokenizer(VOCABULARY, lowercase=False).strip_accents is False
    assert "entries" in repr(tokenizer)


def test_identity_is_vocabulary_and_switches(tokenizer):
    twin = pickle.loads(pickle.dumps(tokenizer))
    assert twin == tokenizer
    assert twin.text_ids(["unwanted"]) == tokenizer.text_ids(["unwanted"])
    assert Tokenizer(list(VOCABULARY), strip_accents=True) == tokenizer
    others = [Tokenizer(VOCABULARY, **switches) for switches in SWITCHES[1:]]
    others.append(Tokenizer((*VOCABULARY, "more")))
    assert len({tokenizer, twin, *others}) == 1 + len(others)
    assert tokenizer != "tokenizer"
    assert len(tokenizer.fingerprint) == 64


def test_bad_arguments(tokenizer):
    with pytest.raises(DataError, match=r"vocabulary\[5\]: '\[UNK\]' is also at vocabulary\[1\]"):
        Tokenizer([*SPECIAL_TOKENS, "[UNK]"])
    with pytest.raises(ValueError, match=r"from 0 to .* Received: -1"):
        tokenizer.id_to_token(-1)
    with pytest.raises(ValueError, match="Received: 100000"):
        tokenizer.decode([100_000])
    with pytest.raises(TypeError, match="must be a string"):
        tokenizer.encode(None)
    with pytest.raises(TypeError, match="must be a string"):
        tokenizer([b"bytes"])
    with pytest.raises(TypeError, match="one string"):
        tokenizer("a text")
    with pytest.raises(ValueError, match="max_length=None"):
        tokenizer(["a"], padding="max_length")
    with pytest.raises(ValueError, match=r"equally many. Received: \[1, 2\]"):
        tokenizer(["a"], ["b", "c"])
    with pytest.raises(ValueError, match=r"room for 3 special tokens. Received: 2"):
        tokenizer.encode("a", "b", max_length=2)


def official(folder: Path, name: str) -> list[str]:
    return (folder / "bert_vocabs" / name).read_text(encoding="utf-8").split("\n")[:-1]


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "switches", "column"),
    [
        ("bert-base-uncased-vocab.txt", {"lowercase": True}, "uncased"),
        ("bert-base-uncased-vocab.txt", {"lowercase": False}, None),
        ("bert-base-chinese-vocab.txt", {"lowercase": True}, "zh"),
        ("bert-base-chinese-vocab.txt", {"lowercase": False}, None),
    ],
)
def test_real_strings(name, switches, column, shared_data, reference):
    vocabulary = official(shared_data, name)
    ours, theirs = Tokenizer(vocabulary, **switches), reference(vocabulary, **switches)
    strings = json.loads((shared_data / "blns" / "blns.json").read_bytes())
    golden = [
        json.loads(line)
        for path in sorted((shared_data / "golden_tokenization").glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").split("\n")[:-1]
    ]
    texts = [*strings, *(case["text"] for case in golden)]
    assert len(texts) > 1_500
    plain = ours.text_ids(texts)
    batch = ours(texts)
    for index, text in enumerate(texts):
        assert_same(ours.encode(text), theirs(text, **ALL))
        mask = batch["padding_mask"][index] == 1
        assert batch["token_ids"][index][mask].tolist() == ours.encode(text).ids
        assert plain[index] == theirs.encode(
            text, add_special_tokens=False, split_special_tokens=True
        )
    # These results of Google's own tokenizer agree with transformers.
    for case in golden if column else ():
        if column in case:
            assert ours.text_ids([case["text"]])[0] == case[column]
