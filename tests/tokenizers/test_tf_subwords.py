"""Byte-level BPE and SentencePiece in a graph give the ids and places of the Python tokenizer."""

from __future__ import annotations

import dataclasses
import functools
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.tokenizers import Tokenizer
from bert_keras.tokenizers.backends import Engine
from tests.tokenizers import learners
from tests.tokenizers.learners import SENTENCES
from tests.tokenizers.samples import TRICKY
from tests.tokenizers.subwords import GRAPHS, NAMES, tokenizer_of

tf = pytest.importorskip("tensorflow")

from bert_keras.tokenizers.tf_tokenizer import InGraphTokenizer  # noqa: E402

SPACES = [f"a{chr(code)}b" for code in (9, 10, 11, 12, 13, 0x1C, 0x85, 0xA0, 0x1680, 0x2003)]
SPACES += [f"a{chr(code)}b" for code in (0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0x200B, 0xFEFF)]
TOKENS = ("<mask>", "</s>", "<unk>", "[MASK]", "[SEP]", "[L]", "[R]", "alone", "Wide new")
TEXTS = [
    *(text for text in TRICKY if len(text) < 500),
    *SENTENCES,
    *SPACES,
    "a <s> b </s><pad> [SEP] <unk> c  <mask>d [MASK]e ［MASK］",
    "it's they'll   we've\n\n\t 'x ''s 1234567  \r\n don't'S 'ſ",
    "``quoted'' '' a  b   c    d     e      f",
    "a  [L] b [R]  c[L][R] [L]  [R]  [L]",
    "alone xalone alone- alone1 (alone) ALONE\u0301",
    "wide new Wide  new a Wide newer",
    "e\u0301 cafe\u0301\u0302 \u0600e\u0301 ﬁ½①\u0007\u00ad \u0915\u094d\u0915\u0301",
    "👩‍👩‍👧 \u00a9\u200d\u00a9 🇺🇳🇺 \u1100\u1161\u11a8\u0301 가\u11a8",
    "\U0010ffff [MASK] \U0010ffff <mask> \uffff",
    "a" * 300,
]


@functools.cache
def _graph(tokenizer: Tokenizer) -> Any:
    """Return the graphs of a tokenizer with and without special tokens in texts."""
    graph = InGraphTokenizer(tokenizer)
    spec = tf.TensorSpec([None], tf.string)

    def run(with_specials: bool) -> Any:
        return tf.function(
            lambda x: graph.pieces_with_places(x, special_tokens_in_text=with_specials),
            input_signature=[spec],
        )

    return graph, [run(False), run(True)]


def _check(tokenizer: Tokenizer, texts: Sequence[str]) -> None:
    """Check ids and places, with special tokens in texts and without them."""
    batch = tf.constant(list(texts), tf.string)
    for with_specials, run in enumerate(_graph(tokenizer)[1]):
        ids, starts, ends = run(batch)
        rows = [ids.with_flat_values(values).to_list() for values in (starts, ends)]
        for index, text in enumerate(texts):
            expected = tokenizer.encode(
                text, add_special_tokens=False, special_tokens_in_text=bool(with_specials)
            )
            assert ids[index].numpy().tolist() == expected.ids, ascii(text)
            places = [*zip(rows[0][index], rows[1][index], strict=True)]
            assert places == expected.offsets, ascii(text)


def _some(names: Sequence[str]) -> list[Any]:
    """Return names as parameters; all but one of each model are slow."""
    quick = ("roberta", "xlm_roberta")
    return [pytest.param(n, marks=[] if n in quick else [pytest.mark.slow]) for n in names]


@pytest.mark.parametrize("name", _some(NAMES))
def test_the_ids_of_python(name: str) -> None:
    tokenizer = tokenizer_of(name)
    _check(tokenizer, TEXTS)
    for text in TEXTS[:4]:
        _check(tokenizer, [text])
    _check(tokenizer, ["\u0007"])  # some normalisations leave nothing of the batch
    _check(tokenizer, [])
    assert len(set(np.concatenate(tokenizer.text_ids(TEXTS)))) > 100


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(
        st.lists(
            st.sampled_from((*TOKENS, *TRICKY[:12], *SPACES, " ", "  ", "new", "'s", "é", "中"))
            | st.characters(exclude_categories=["Cs"]),
            max_size=8,
        ).map("".join),
        min_size=1,
        max_size=4,
    )
)
def test_any_text(name: str, texts: list[str]) -> None:
    _check(tokenizer_of(name), [text for text in texts if len(text) < 400])


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_any_characters(name: str) -> None:
    """Characters of all scripts beside each other."""
    generator = random.Random(0)
    alphabet = [chr(code) for code in range(0x20000) if not 0xD800 <= code < 0xE000]
    _check(tokenizer_of(name), ["".join(generator.choices(alphabet, k=6)) for _ in range(3_000)])


def _check_rows(tokenizer: Tokenizer) -> None:
    """Check the rows of single texts and of pairs, at several lengths."""
    graph, _ = _graph(tokenizer)
    texts, pairs = ["the tower", "", "a b c d e f g", "new <mask>"], ["low", "a b c", "", "é x y z"]
    for columns in ([texts], [texts, pairs]):
        for max_length in (None, tokenizer.scheme.num_added(len(columns)), 7, 9, 12):
            expected = tokenizer(*columns, max_length=max_length)
            found = graph(*map(tf.constant, columns), max_length=max_length)
            assert set(found) == set(expected)
            for key, values in expected.items():
                np.testing.assert_array_equal(found[key], values)
    short = tokenizer.scheme.num_added(2) - 1
    with pytest.raises(ValueError, match=f"Received: {short}"):
        graph(tf.constant(["a"]), tf.constant(["b"]), max_length=short)


@pytest.mark.parametrize("name", _some(GRAPHS))
def test_rows_of_texts_and_pairs(name: str) -> None:
    tokenizer = tokenizer_of(name)
    _check_rows(tokenizer)
    graph, _ = _graph(tokenizer)
    tokens = graph.id_to_token(tf.range(tokenizer.vocab_size)).numpy()
    assert [token.decode() for token in tokens] == [*tokenizer.vocabulary]


@pytest.mark.parametrize("cls_before_second", [pytest.param(False, marks=[pytest.mark.slow]), True])
@pytest.mark.parametrize("two_segments", [False, True])
@pytest.mark.parametrize("separators", [1, 2])
def test_places_of_special_tokens(
    separators: int, two_segments: bool, cls_before_second: bool
) -> None:
    tokenizer = tokenizer_of("roberta")
    scheme = dataclasses.replace(
        tokenizer.scheme,
        separators=separators,
        two_segments=two_segments,
        cls_before_second=cls_before_second,
    )
    placed = Tokenizer.from_engine(Engine(tokenizer.json, scheme))
    assert (placed == tokenizer) == (scheme == tokenizer.scheme)
    _check_rows(placed)


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
def test_saved_and_loaded(name: str, tmp_path: Path) -> None:
    tokenizer = tokenizer_of(name)
    tf.saved_model.save(_graph(tokenizer)[0], str(tmp_path / "model"))
    loaded: Any = tf.saved_model.load(str(tmp_path / "model"))
    texts = tf.constant(TEXTS)
    assert loaded.tokenize(texts).to_list() == tokenizer.marked_ids(TEXTS)
    bad = loaded.tokenize(tf.constant([b"a\xffb", b"\xe4"])).to_list()
    assert bad == tokenizer.marked_ids(["a\ufffdb", "\ufffd"])


@pytest.mark.slow
@pytest.mark.parametrize("family", learners.FAMILIES)
def test_tokenizers_of_other_libraries(family: str, foreign_folders: dict[str, Path]) -> None:
    """Learned by SentencePiece, with its own normalisation rules."""
    _check(Tokenizer.from_preset(foreign_folders[family]), TEXTS)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["bpe", "unigram", "char"])
def test_trained_tokenizers(model: str) -> None:
    if model == "unigram":
        pytest.importorskip("sentencepiece")
    choices: list[dict[str, Any]] = [{}, {"lowercase": False}, {"strip_accents": True}]
    for options in choices:
        size = {"bpe": 300, "unigram": 60, "char": 30}[model]
        _check(Tokenizer.train(SENTENCES * 3, vocab_size=size, model=model, **options), TEXTS)


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("name", [*learners.FAMILIES, *NAMES])
def test_real_strings(name: str, shared_data: Path, foreign_folders: dict[str, Path]) -> None:
    texts = json.loads((shared_data / "blns" / "blns.json").read_bytes())
    for path in sorted((shared_data / "golden_tokenization").glob("*.jsonl")):
        lines = path.read_text(encoding="utf-8").split("\n")[:-1]
        texts += [json.loads(line)["text"] for line in lines]
    assert len(texts) > 1_500
    folder = foreign_folders.get(name)
    _check(Tokenizer.from_preset(folder) if folder else tokenizer_of(name), texts)
