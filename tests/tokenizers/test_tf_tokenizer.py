"""The in-graph tokenizer gives the ids of the Python tokenizer for every string."""

from __future__ import annotations

import json
import random
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.tokenizers import Encoding, Tokenizer
from bert_keras.tokenizers.vocabulary import SPECIAL_TOKENS

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

from bert_keras.tokenizers.tf_tokenizer import InGraphTokenizer  # noqa: E402

SWITCHES = {
    "uncased": {},
    "cased": {"lowercase": False},
    "accents_kept": {"strip_accents": False},
    "accents_stripped": {"lowercase": False, "strip_accents": True, "split_cjk": False},
}
HIGH, LOW = "\U0001d16d", "\u1b44"  # These are spacing marks of the combining classes 226 and 9.
HARD = [
    *("", " ", "\t\n\r", "\x00", "\ufffd", "\ufeffa", "a\x00b", "a\ufffdb", "a\x0bb", "a\x1cb"),
    # White space, and characters that only look like it.
    *("a\u00a0b", "a\u2003b", "a\u3000b", "a\u1680b", "a\u2028b", "a\u2029b", "a\x85b"),
    *("a\u200bb", "a\u200db", "a\u00adb", "a\ufe0fb", "a\ue000b", "a\U000e0001b", "a\u0378b"),
    # Letters with an unusual lower case or decomposition.
    *("İ", "ẞ", "ΑΣ ας", "ﬁ", "½", "²", "№", "…", "™", "Ａ", "ǅ", "K", "ß", "ſ", "ŉ", "Ё", "ё"),
    *("café", "cafe\u0301", "\u0344", "\u0f73", "हिन्दी", "שָׁלוֹם", "กำ", "தமிழ்", "가나다", "각"),
    # Characters that are words of their own, and others.
    *("中文abc中", "豈", "\U00020000", "かな", "a-b", "a$b+c<d^e`f", "a¿b", "a\u037eb", "a\u2260b"),
    *("👨‍👩‍👧", "😀a", "##ing", "a##ing", "[unused1]", "don't", "\uffff", "\ufffe", "\U0010ffff"),
    # Words of about 100 characters, of one to four bytes each, and many words.
    *(c * n for c in ("x", "é", "ж", "中", "가", "𝒳", "e\u0301") for n in (99, 100, 101)),
    "ab " * 3000,
    # Special tokens.
    *("[MASK]", "a[MASK]b", "[MASK][SEP][CLS]", "[mask]", "[MASK", "MASK]", "[[MASK]]", "[ MASK]"),
    *("[MA\x00SK]", "[M\u0300ASK]", "[MÁSK]", "[MASK]\u0301", "é[UNK][PAD]É", "[MASK]##ing", "["),
    # Marks that canonical ordering moves, and characters that block it.
    *(f"a{HIGH}{between}{LOW}b" for between in ("", "\u0301", "\u200d", "\u034f", "c", "[SEP]")),
    *(f"{HIGH}{LOW}", f"{LOW} {HIGH}{LOW}", f"[MASK]{HIGH}{LOW}", "\U0001d15e\u1b44", "\U0001d165"),
    "𞤀\U0001e94a\U0001e944",
]


# These two have both values of each switch. `.ci/full` runs all sets.
_EVERY_TIME = ("accents_kept", "accents_stripped")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[] if name in _EVERY_TIME else [pytest.mark.slow])
        for name in SWITCHES
    ],
)
def tokenizer(request) -> Tokenizer:
    """Return a tokenizer that knows each character of the test.

    With [UNK] for a character, a difference could stay hidden.
    """
    switches = SWITCHES[request.param]
    text = "".join(HARD) + "".join(map(chr, range(0x20, 0x250))) + "".join(MARKS)
    forms = {unicodedata.normalize(form, case) for form in ("NFC", "NFD") for case in cases(text)}
    characters = sorted(c for c in set("".join(forms)) - set("\0\r\n") if c.strip())
    vocabulary = [*characters, *(f"##{c}" for c in characters), "the", "##ing", "[unused1]"]
    vocabulary += ["##", "a\tb", "x" * 400]  # No text gives these pieces.
    return Tokenizer([*SPECIAL_TOKENS, *vocabulary], **switches)


def cases(text: str) -> tuple[str, str]:
    return text, "".join(c.lower() for c in text)


MARKS = [c for c in map(chr, range(0x300, 0x1F000)) if unicodedata.combining(c)]


@pytest.fixture(scope="module", params=[False, True], ids=["fast", "portable"])
def in_graph(tokenizer: Tokenizer, request) -> InGraphTokenizer:
    return InGraphTokenizer(tokenizer, portable=request.param)


def encodings(tokenizer: Tokenizer, texts: Sequence[str], special: bool = True) -> list[Encoding]:
    """Return the encodings of the Python tokenizer, without special tokens around them."""
    return [
        tokenizer.encode(text, add_special_tokens=False, special_tokens_in_text=special)
        for text in texts
    ]


def python_ids(tokenizer: Tokenizer, texts: Sequence[str], special: bool = True) -> list[list[int]]:
    return [encoding.ids for encoding in encodings(tokenizer, texts, special)]


def check(tokenizer: Tokenizer, in_graph: InGraphTokenizer, texts: Sequence[str]) -> None:
    """Check ids and offsets of the in-graph tokenizer against the Python one."""
    batch = tf.constant(list(texts), tf.string)
    found = in_graph.tokenize(batch).to_list()
    again, starts, ends = (rows.to_list() for rows in in_graph.tokenize_with_offsets(batch))
    assert again == found
    for row, (text, encoding) in enumerate(zip(texts, encodings(tokenizer, texts), strict=True)):
        assert found[row] == encoding.ids, ascii(text)
        if not (tokenizer.strip_accents and is_reordered(text)):
            assert [*zip(starts[row], ends[row], strict=True)] == encoding.offsets, ascii(text)


def is_reordered(text: str) -> bool:
    """Return if canonical ordering moves a mark, because Python's offsets differ then."""
    cleaned = "".join(c for c in text if unicodedata.category(c)[0] != "C" and c != "\ufffd")
    apart = "".join(unicodedata.normalize("NFD", c) for c in cleaned)
    return unicodedata.normalize("NFD", cleaned) != apart


def test_hard_strings(tokenizer, in_graph):
    check(tokenizer, in_graph, HARD)
    for text in HARD[:40]:
        check(tokenizer, in_graph, [text])


def test_offsets_of_marks_that_change_places_are_their_own(tokenizer, in_graph):
    text = f"a{HIGH}\u0301{LOW}b"
    _, starts, ends = in_graph.tokenize_with_offsets(tf.constant([text]))
    found = [text[a:b] for a, b in zip(starts.to_list()[0], ends.to_list()[0], strict=True)]
    stripped = ["a", LOW, HIGH, "b"]
    assert found == (stripped if tokenizer.strip_accents else list(text))


def test_random_strings(tokenizer, in_graph):
    random_choice = random.Random(0)
    alphabet = [*HARD[:60], *MARKS, *SPECIAL_TOKENS, *"abÀß中 .[]", "가", "\U0001d15e", "\u200d"]
    for _ in range(20):
        texts = ["".join(random_choice.choices(alphabet, k=8)) for _ in range(500)]
        check(tokenizer, in_graph, texts)


@settings(max_examples=300, deadline=None)
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=4))
def test_any_string(tokenizer, in_graph, texts):
    check(tokenizer, in_graph, texts)


@settings(max_examples=100, deadline=None)
@given(texts=st.lists(st.binary(), min_size=1, max_size=4))
def test_any_bytes(tokenizer, in_graph, texts):
    found = in_graph.tokenize(tf.constant(texts, tf.string)).to_list()
    # TensorFlow and Python replace bad bytes by different numbers of U+FFFD. The tokenizers drop
    # all.
    assert found == python_ids(tokenizer, [text.decode(errors="replace") for text in texts])


def test_special_tokens_as_plain_text(tokenizer):
    in_graph = InGraphTokenizer(tokenizer, special_tokens_in_text=False)
    found = in_graph.tokenize(tf.constant(HARD)).to_list()
    assert found == python_ids(tokenizer, HARD, special=False)
    assert tokenizer.mask_id not in in_graph.tokenize(tf.constant(["a [MASK]"])).values


def test_batches_with_padding_and_truncation(tokenizer, in_graph):
    texts = ["the cat", "", "a b c d e f g h", "[MASK]", "中文 é x"]
    pairs = ["a b c d e f", "x", "", "the the the the the", "b c"]
    for columns in ([texts], [texts, pairs]):
        for max_length in (None, *range(len(columns) + 1, 16)):
            expected = tokenizer(*columns, max_length=max_length)
            found = in_graph(*map(tf.constant, columns), max_length=max_length)
            assert set(found) == set(expected)
            for name, values in expected.items():
                assert found[name].dtype == tf.int32
                np.testing.assert_array_equal(found[name], values)


def test_max_length_without_room(in_graph):
    with pytest.raises(ValueError, match="Received: 2"):
        in_graph(tf.constant(["a"]), tf.constant(["b"]), max_length=2)


def test_empty_batch(in_graph):
    assert in_graph.tokenize(tf.constant([], tf.string)).shape == (0, None)
    assert in_graph(tf.constant([], tf.string), max_length=8)["token_ids"].shape == (0, 1)


def test_tokens_of_ids(tokenizer, in_graph):
    ids = np.arange(tokenizer.vocab_size, dtype=np.int32).reshape(1, -1)
    tokens = [token.decode() for token in in_graph.id_to_token(tf.constant(ids)).numpy()[0]]
    assert tokens == list(tokenizer.vocabulary)


def test_eager_tf_data_and_reloaded_are_the_same(tokenizer, in_graph, tmp_path: Path):
    expected = in_graph.tokenize(tf.constant(HARD)).to_list()
    dataset = tf.data.Dataset.from_tensor_slices(HARD).batch(16).map(in_graph.tokenize)
    assert [row for batch in dataset for row in batch.to_list()] == expected
    tf.saved_model.save(in_graph, str(tmp_path / "one"))
    (tmp_path / "one").rename(tmp_path / "two")
    reloaded = tf.saved_model.load(str(tmp_path / "two"))
    assert reloaded.tokenize(tf.constant(HARD)).to_list() == expected
    assert (tmp_path / "two" / "assets" / "vocab.txt").is_file()


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize(
    ("vocabulary", "switches"),
    [
        ("bert-base-uncased", {}),
        ("bert-base-chinese", {}),
        ("bert-base-uncased", SWITCHES["cased"]),
    ],
)
def test_real_vocabularies_and_texts(shared_data: Path, vocabulary: str, switches: dict):
    lines = (shared_data / "bert_vocabs" / f"{vocabulary}-vocab.txt").read_text(encoding="utf-8")
    tokenizer = Tokenizer(lines.removesuffix("\n").split("\n"), **switches)
    texts = [
        json.loads(line)["text"]
        for name in ("blns", "enwiki_lines_shared")
        for line in (shared_data / "golden_tokenization" / f"{name}.jsonl")
        .read_text(encoding="utf-8")
        .strip()
        .split("\n")
    ]
    texts += json.loads((shared_data / "blns" / "blns.json").read_text(encoding="utf-8"))
    assert len(texts) > 1000
    for portable in (False, True):
        check(tokenizer, InGraphTokenizer(tokenizer, portable=portable), [*texts, *HARD])
