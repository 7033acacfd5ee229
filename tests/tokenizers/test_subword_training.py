"""Training of byte-level BPE, unigram and character tokenizers."""

from __future__ import annotations

import builtins
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import tokenizers as hf

from bert_keras.errors import DataError
from bert_keras.tokenizers import MODELS, Tokenizer, check_model, subword_training
from bert_keras.tokenizers.vocabulary import SPECIAL_TOKENS
from tests.tokenizers.spaceless import WORDS, sentences

SIZES = {"bpe": 320, "unigram": 60, "char": 30}  # of text in one script without spaces
SPACELESS = [model for model in MODELS if model != "wordpiece"]
TEXTS = [*sentences(60), "the cat sat on 12 mats."]


def train(model: str, documents: Any = TEXTS, **options: Any) -> Tokenizer:
    if model == "unigram":
        pytest.importorskip("sentencepiece")
    return Tokenizer.train(documents, **{"model": model, "vocab_size": SIZES[model], **options})


TOO_FEW = r"gives at most ([\d,]+) vocabulary entries.*Pass \1 or less, or add text"


def largest(model: str, documents: Any, **options: Any) -> Tokenizer:
    """Return the tokenizer with the largest vocabulary, whose size the refusal names."""
    with pytest.raises(DataError, match=TOO_FEW) as caught:
        train(model, documents, **{**options, "vocab_size": 5_000})
    named = re.search(TOO_FEW, str(caught.value))
    assert named is not None
    size = int(named[1].replace(",", ""))
    tokenizer = train(model, documents, **{**options, "vocab_size": size})
    assert tokenizer.vocab_size == size
    return tokenizer


def test_every_model_is_tried_here() -> None:
    assert set(SIZES) == set(SPACELESS)


@pytest.mark.parametrize("script", WORDS)
@pytest.mark.parametrize("model", SPACELESS)
def test_text_without_spaces_has_no_unknown_tokens(model: str, script: str) -> None:
    """WordPiece makes each of these sentences one [UNK]."""
    texts = sentences(40, script)
    normalizer = subword_training._normalizer(
        lowercase=True, strip_accents=False, compatibility=model != "bpe"
    )
    normalized = [normalizer.normalize_str(text) for text in texts]
    # The alphabets of the four scripts have different sizes.
    size = SIZES[model] if model == "bpe" else len(set("".join(normalized))) + 6
    tokenizer = train(model, texts, vocab_size=size)
    assert tokenizer.vocab_size == size
    assert tokenizer.vocabulary[:5] == SPECIAL_TOKENS
    assert tokenizer.special_ids == (0, 1, 2, 3, 4)
    ids = tokenizer.text_ids(texts)
    assert not any(tokenizer.unk_id in row for row in ids)
    assert min(map(len, ids)) > 20
    assert [tokenizer.decode(row) for row in ids] == normalized
    wordpiece = Tokenizer([*SPECIAL_TOKENS, "x"])
    assert wordpiece.text_ids(texts) == [[1]] * len(texts)


@pytest.mark.parametrize("model", SPACELESS)
def test_transformers_opens_the_same_tokenizer(model: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = train(model)
    tokenizer.save_to_preset(tmp_path)
    again = Tokenizer.from_preset(tmp_path)
    assert again == tokenizer
    assert again.continuation.tolist() == tokenizer.continuation.tolist()
    reference = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in (TEXTS[0], "The cat [MASK] on 12 mats, ok!", " a\u200bb ", "แมว นั่ง", ""):
        ours, theirs = tokenizer.encode(text, TEXTS[1]), reference(text, TEXTS[1])
        assert ours.ids == theirs["input_ids"]
        assert ours.segment_ids == theirs["token_type_ids"]


_PROGRAM = """
import sys
from tests.tokenizers.test_subword_training import TEXTS, SIZES, Tokenizer
for model in sys.argv[1:]:
    print(Tokenizer.train(TEXTS, model=model, vocab_size=SIZES[model])._kind.json)
"""


def test_is_the_same_in_every_process() -> None:
    """The result depends neither on the hash seed nor on the number of threads."""
    pytest.importorskip("sentencepiece")
    outputs = {
        subprocess.run(
            [sys.executable, "-c", _PROGRAM, *SPACELESS],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": threads, "RAYON_NUM_THREADS": threads},
            capture_output=True,
            check=True,
        ).stdout
        for threads in ("1", "4")
    }
    assert len(outputs) == 1
    expected = "".join(f"{train(model)._kind.json}\n" for model in SPACELESS)
    assert outputs == {expected.encode()}


@pytest.mark.parametrize("model", SPACELESS)
def test_is_independent_of_order_and_chunks(model: str) -> None:
    expected = train(model).fingerprint
    assert train(model, reversed(TEXTS)).fingerprint == expected
    assert train(model, ["\n".join(TEXTS)]).fingerprint == expected
    assert train(model, [TEXTS[:50], iter(TEXTS[50:])]).fingerprint == expected


def test_bpe_is_that_of_the_library() -> None:
    """The trainer of `tokenizers` learns the same pieces from words in ASCII."""
    words = Path(__file__).read_text(encoding="utf-8").split()
    text = " ".join(word for word in words if word.isascii() and word.isalpha()).lower()
    learner = hf.Tokenizer(hf.models.BPE())
    learner.pre_tokenizer = hf.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = hf.trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=hf.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    learner.train_from_iterator([text], trainer)
    ours = train("bpe", [text], vocab_size=300)
    assert len(set(ours.vocabulary) ^ set(learner.get_vocab())) <= 4  # pairs of equal count
    pieces = len(learner.encode(text, add_special_tokens=False).ids)
    assert abs(len(ours.text_ids([text])[0]) - pieces) <= 0.02 * pieces


def test_bpe_spells_every_text() -> None:
    tokenizer = train("bpe")
    text = "ÅΩ 中文 \U0001f600\tx\u200b  y"
    assert tokenizer.decode(tokenizer.text_ids([text])[0]) == text.lower()
    assert tokenizer.unk_id not in tokenizer.text_ids([text])[0]


def test_unigram_finds_the_words() -> None:
    """With as many entries as there are words, most words of the text are entries."""
    tokenizer = train("unigram")
    words = set(WORDS["thai"].split())
    normalize = subword_training._normalizer(
        lowercase=True, strip_accents=False, compatibility=True
    ).normalize_str
    found = {normalize(word) for word in words} & set(tokenizer.vocabulary)
    assert len(found) >= 2 * len(words) // 3


def test_characters_by_their_frequency() -> None:
    tokenizer = train("char", ["aaaa bbb cc d"], vocab_size=8)
    assert tokenizer.vocabulary[5:] == ("a", "\u2581", "b")
    assert tokenizer.encode("ab c").ids == [2, 6, 5, 7, 6, tokenizer.unk_id, 3]


@pytest.mark.parametrize("model", SPACELESS)
def test_what_a_word_is(model: str) -> None:
    """A piece of Thai is a word of its own; a Latin piece without a space before it is not."""
    tokenizer = train(model)
    flags = Counter[tuple[bool, bool]]()
    for piece, flag in zip(tokenizer.vocabulary, tokenizer.continuation.tolist(), strict=True):
        number = tokenizer.vocabulary.index(piece)
        text = "" if piece in SPECIAL_TOKENS else tokenizer.decode([number])
        if text[:1].isalpha() and not piece.startswith(("\u2581", "\u0120")):
            flags["\u0e01" <= text[0] <= "\u0e4e", flag] += 1
    assert flags[True, False] > 5
    assert flags[True, True] == 0
    assert flags[False, False] == 0


@pytest.mark.parametrize("model", SPACELESS)
def test_switches(model: str) -> None:
    texts = ["ABC abc É\u0e34 xyz e\u0301"] * 3
    cased = largest(model, texts, lowercase=False)
    assert cased.text_ids(["ABC"]) != cased.text_ids(["abc"])
    lower = largest(model, texts)
    assert lower.text_ids(["ABC"]) == lower.text_ids(["abc"])
    assert lower.text_ids(["é"]) != lower.text_ids(["e"])  # accents stay unless they are removed
    plain = largest(model, texts, strip_accents=True)
    assert plain.text_ids(["É"]) == plain.text_ids(["e"])
    assert (plain.lowercase, plain.strip_accents, plain.split_cjk) == (None, None, None)


@pytest.mark.parametrize("model", SPACELESS)
def test_a_refusal_names_the_size_that_is_right(model: str) -> None:
    tokenizer = largest(model, ["aa ab abc"])
    assert tokenizer.vocab_size < 300
    for nothing in ([], ["", " \t"], [[]]):
        with pytest.raises(DataError, match=r"no words.*Add text"):
            train(model, nothing)


def test_an_alphabet_that_does_not_fit() -> None:
    with pytest.raises(DataError, match=r"alphabet .* does not fit.*Pass \d+ or more") as caught:
        train("unigram", sentences(20), vocab_size=12)
    needed = int(str(caught.value).partition("Pass ")[2].split()[0])
    assert train("unigram", sentences(20), vocab_size=needed).vocab_size == needed
    assert train("char", sentences(20), vocab_size=12).vocab_size == 12  # the most frequent


def test_a_large_alphabet_leaves_room_for_pieces() -> None:
    texts = [
        "".join(chr(0x4E00 + number) for number in range(start, start + 50)) for start in range(400)
    ]
    tokenizer = train("bpe", texts, vocab_size=361)
    assert tokenizer.vocab_size == 361
    assert tokenizer.decode(tokenizer.text_ids(texts[:1])[0]) == texts[0]


def test_bad_arguments() -> None:
    for model in MODELS:
        with pytest.raises(ValueError, match="`vocab_size` must be "):
            Tokenizer.train(TEXTS, model=model, vocab_size=5)
    with pytest.raises(
        ValueError, match=r"at least 261 with model=\"bpe\".*Received: vocab_size=260"
    ):
        check_model("bpe", 260)
    with pytest.raises(ValueError, match=r"one of wordpiece, bpe, unigram, char. Received: 'BPE'"):
        check_model("BPE", 300)
    with pytest.raises(TypeError, match="one string"):
        train("char", "a text")


def test_unigram_needs_sentencepiece(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def without(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "sentencepiece":
            raise ImportError(name)
        return original(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r'pip install "bert-keras\[sentencepiece\]"'):
        check_model("unigram", 100)


def test_long_words_are_counted_in_parts() -> None:
    parts = list(subword_training._parts("x" * 150))
    assert [*map(len, parts)] == [64, 64, 22]


def test_counts_of_a_large_corpus_are_scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subword_training, "_MOST_WORDS", 10)
    texts = list(subword_training._repeated({"b": 90, "a": 9, "c": 1}))
    assert Counter("\n".join(texts).split("\n")) == {"b": 9, "a": 1, "c": 1}


def test_progress() -> None:
    for model in SPACELESS:
        calls: list[tuple[object, ...]] = []
        train(model, progress=lambda *call, calls=calls: calls.append(call))
        assert calls[-2:] == [
            (0, None, "learning entries"),
            (SIZES[model],) * 2 + ("learning entries",),
        ]
        assert calls[0][2] == "counting words"
