"""Normalisation in a graph equals that of the library: texts and places."""

from __future__ import annotations

import functools
import random
from typing import Any

import pytest
import tokenizers as hf
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import normalizers

from bert_keras.tokenizers.character_map import ClusterRules, write_rules
from tests.tokenizers.subwords import RULES

tf = pytest.importorskip("tensorflow")

from bert_keras.tokenizers.tf_characters import Characters, decoded  # noqa: E402
from bert_keras.tokenizers.tf_normalizers import CanonicalForm, ClusterReplacer  # noqa: E402

FORMS = ("NFC", "NFD", "NFKC", "NFKD")
# Marks in and out of order, composites, Hangul, and what joins grapheme clusters.
HARD = [
    *("e\u0301\u0302\u0323 ", "é", "\u1e69", "\u0f71\u0f72", "\u0344", "\u302a\u0316", "\u3099"),
    *("か", "\u0915", "\u094d", "\u0937", "\u200d", "\u200c", "\u00a9", "\u00ae", "👨", "\u0600"),
    *("\u06dd", "\u1100", "\u1161", "\u11a8", "가", "각", "\r", "\n", "\u0007", "\u200b", "①"),
    *("½", "x", "1", "\ufe0f", "🏻", "🇦", "\u0903", "\u0e33", "\u00ad", "\u0ddf", "\u0dd9"),
    *("\u0dcf", "\U00016d63", "\U00016d67", "ﬁ", "\u0958", "\u0301", "\u0300", "a", "b"),
]
texts_of_parts = st.lists(
    st.lists(st.sampled_from(HARD) | st.characters(exclude_categories=["Cs"]), max_size=9).map(
        "".join
    ),
    min_size=1,
    max_size=4,
)


@functools.cache
def _both(name: str) -> tuple[Any, hf.Tokenizer]:
    """Return a step in a graph, and a tokenizer of the library with one piece per character."""
    library = hf.Tokenizer(hf.models.WordLevel({"?": 0}, "?"))
    library.pre_tokenizer = hf.pre_tokenizers.Split(hf.Regex(r"[\s\S]"), "isolated")
    if name in FORMS:
        library.normalizer, step = getattr(normalizers, name)(), CanonicalForm(name)
    else:
        library.normalizer = normalizers.Precompiled(write_rules(RULES))
        step = ClusterReplacer(ClusterRules.of(RULES))
    spec = tf.TensorSpec([None], tf.string)
    return tf.function(lambda x: tuple(step(decoded(x))), input_signature=[spec]), library


def _check(name: str, texts: list[str]) -> None:
    run, library = _both(name)
    found = Characters(*run(tf.constant(texts, tf.string)))
    points, rows = found.points.numpy(), found.texts.numpy()
    for row, text in enumerate(texts):
        own = rows == row
        normalized = library.normalizer.normalize_str(text)
        assert "".join(map(chr, points[own])) == normalized, ascii(text)
        places = [*zip(found.starts.numpy()[own], found.ends.numpy()[own], strict=True)]
        assert places == library.encode(text, add_special_tokens=False).offsets, ascii(text)


@pytest.mark.parametrize("name", [*FORMS, "rules"])
def test_hard_texts(name: str) -> None:
    generator = random.Random(0)
    texts = ["".join(generator.choices(HARD, k=1 + n % 9)) for n in range(400)]
    _check(name, [*HARD, "", "abc", *texts])
    _check(name, ["\u0007", "\u00ad"])  # the rules leave nothing


@pytest.mark.slow
@pytest.mark.parametrize("name", [*FORMS, "rules"])
@settings(max_examples=150, deadline=None)
@given(texts=texts_of_parts)
def test_any_text(name: str, texts: list[str]) -> None:
    _check(name, texts)
