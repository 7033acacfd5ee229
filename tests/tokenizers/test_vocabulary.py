"""Learning a vocabulary: size, order, determinism, errors."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from bert_keras.errors import CoverageWarning, DataError
from bert_keras.tokenizers import Tokenizer
from bert_keras.tokenizers.vocabulary import SPECIAL_TOKENS, read_vocabulary
from bert_keras.tokenizers.wordpiece import WordPiece
from tests.tokenizers.samples import VOCABULARY

SENTENCES = [
    "The lowest tower lowered the newest flower.",
    "Lower, wider and newer: widest and lowest!",
    "Ein süßer Fluß fließt; ñandú, naïve café.",
    "中国人民大学 is in 北京, not 東京.",
    "[SEP] and [MASK] are text here.",
]
DOCUMENTS = [[random.Random(i).choice(SENTENCES) for i in range(k, k + 6)] for k in range(40)]


def test_the_earlier_name_is_answered_with_todays() -> None:
    """The error for the earlier name `learn` names `train`."""
    with pytest.raises(AttributeError, match=r"called `Tokenizer\.train` now"):
        Tokenizer.learn([["a"]], vocab_size=6)


def learn(documents=DOCUMENTS, vocab_size=100, **kwargs) -> Tokenizer:
    return Tokenizer.train(documents, vocab_size=vocab_size, **kwargs)


def by_hand(words: dict[str, int], num_merges: int) -> list[str]:
    """Return the merged pieces by a slow and simple algorithm."""
    spelled = {word: [word[0], *("##" + c for c in word[1:])] for word in words}
    merges: list[str] = []
    while len(merges) < num_merges:
        counts: Counter[tuple[str, str]] = Counter()
        for word, pieces in spelled.items():
            for i in range(len(pieces) - 1):
                counts[pieces[i], pieces[i + 1]] += words[word]
        left, right = min(counts, key=lambda pair: (-counts[pair], pair))
        for pieces in spelled.values():
            i = 0
            while i < len(pieces) - 1:
                if (pieces[i], pieces[i + 1]) == (left, right):
                    pieces[i : i + 2] = [left + right[2:]]
                i += 1
        if left + right[2:] not in merges:
            merges.append(left + right[2:])
    return merges


def test_specials_then_alphabet_then_merges():
    tokenizer, kind = learn(), WordPiece(SPECIAL_TOKENS)
    assert tokenizer.vocab_size == 100
    assert tokenizer.vocabulary[:5] == SPECIAL_TOKENS
    words = Counter(w for document in DOCUMENTS for text in document for w in kind.split(text))
    forms = {piece for word in words for piece in (word[0], *("##" + c for c in word[1:]))}
    end = 5 + len(forms)
    assert tokenizer.vocabulary[5:end] == tuple(sorted(forms, key=lambda p: (len(p), p)))
    assert "z" not in tokenizer.vocabulary
    assert "##中" not in tokenizer.vocabulary
    assert list(tokenizer.vocabulary[end:]) == by_hand(words, 100 - end)


def test_repeated_letters_merge_as_by_hand():
    words = {"aaaa": 5, "aaaaaaa": 3, "baaab": 4, "abab": 2, "ababab": 1}
    documents = [" ".join([word] * n) for word, n in words.items()]
    learned = learn(documents, vocab_size=9 + 9).vocabulary[9:]
    assert list(learned) == by_hand(words, 9)


def test_every_word_of_the_corpus_is_known():
    tokenizer = learn(vocab_size=90)
    ids = tokenizer.text_ids([text for document in DOCUMENTS for text in document])
    assert not any(tokenizer.unk_id in row for row in ids)


def test_switches():
    cased = learn(lowercase=False)
    assert (cased.lowercase, cased.strip_accents) == (False, False)
    assert {"T", "ñ"} <= set(cased.vocabulary)
    assert not {"T", "ñ"} & set(learn().vocabulary)
    assert "##国" in learn(split_cjk=False).vocabulary


def test_is_independent_of_order_and_chunks():
    expected = learn().fingerprint
    sentences = [text for document in DOCUMENTS for text in document]
    assert learn(sentences).fingerprint == expected
    assert learn(reversed(sentences)).fingerprint == expected
    assert learn(["\n".join(sentences)]).fingerprint == expected
    assert learn(iter(text for text in document) for document in DOCUMENTS).fingerprint == expected


def test_is_the_same_in_every_process():
    program = (
        "from tests.tokenizers.test_vocabulary import learn; print(learn().fingerprint, end='')"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": seed, "RAYON_NUM_THREADS": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert outputs == {learn().fingerprint}


def test_progress():
    calls = []
    learn(progress=lambda *call: calls.append(call))
    assert calls == [(40, 40, "counting words"), (100, 100, "learning entries")]
    calls.clear()
    learn(DOCUMENTS * 6, progress=lambda *call: calls.append(call))
    assert calls[0] == (100, None, "counting words")


def test_rare_characters_are_left_out_unless_there_is_room():
    documents = ["the world goes round and round the sun"] * 1_000 + ["қ"]
    assert "қ" not in learn(documents, vocab_size=36).vocabulary
    assert "қ" in learn(documents, vocab_size=37).vocabulary


def test_alphabet_fits():
    vocabulary = learn(vocab_size=20).vocabulary
    assert len(vocabulary) == 20
    assert {"##e", "##r"} <= set(vocabulary)  # These are the most frequent letters.


REFUSALS = {
    "too few words": (
        ["aa ab"],
        1_000,
        r"2 words, 2 different\) gives at most 10 .*Pass 10 or less",
    ),
    "no text": ([], 6, r"^the corpus \(0 words.* at most 5 vocabulary entries.* Add text\.$"),
    "no words": (["", " \t"], 6, r"^the corpus \(0 words.* at most 5 .* Add text\.$"),
    "no sentences": ([[]], 6, r"^the corpus \(0 words.* at most 5 .* Add text\.$"),
    "alphabet": (["abcd efgh ijkl"], 8, r"alphabet .* does not fit .* 12 entries.*Pass 17 or more"),
    "long words": (["x" * 101], 50, r"100 % of the words.*longer than 100 .*model=\"unigram\""),
    "some long": (
        ["ok " + "x" * 101],
        50,
        r"Pass 8 or less, or add text\. 50 % of the words, with",
    ),
}


@pytest.mark.parametrize("cause", REFUSALS)
def test_a_refusal_names_its_cause_and_the_cure(cause: str) -> None:
    documents, vocab_size, message = REFUSALS[cause]
    with pytest.raises(DataError, match=message) as caught:
        learn(documents, vocab_size=vocab_size)
    assert ("Pass" in str(caught.value)) == (cause in ("too few words", "alphabet", "some long"))


@pytest.mark.filterwarnings("ignore::bert_keras.errors.CoverageWarning")
@pytest.mark.parametrize("cause", ["too few words", "alphabet", "some long"])
def test_the_size_that_a_refusal_names_is_right(cause: str) -> None:
    documents, vocab_size, _ = REFUSALS[cause]
    with pytest.raises(DataError) as caught:
        learn(documents, vocab_size=vocab_size)
    named = re.search(r"Pass (\d+) or", str(caught.value))
    assert named is not None
    assert learn(documents, vocab_size=int(named[1])).vocab_size == int(named[1])


def test_long_words_are_not_learned_and_said() -> None:
    documents = ["y" * 3 + " " + "x" * 101]
    with pytest.warns(
        CoverageWarning, match=r"^50 % of the words, with 97 % of the characters, are"
    ):
        assert "x" not in learn(documents, vocab_size=7).vocabulary
    # 1 % of the words and of the characters is worth no warning.
    learn([*["y" * 3] * 10_000, "x" * 101], vocab_size=7)


def test_bad_arguments():
    with pytest.raises(ValueError, match=r"more than the 5 special tokens. Received: vocab_size=5"):
        learn(vocab_size=5)
    with pytest.raises(TypeError, match="one string"):
        learn("a text")


@pytest.mark.data
def test_chinese(shared_data):
    text = (shared_data / "zh_corpus" / "zh_modern_6MB.txt").read_text(encoding="utf-8")
    tokenizer = learn(text[:1_000_000].split("\n"), vocab_size=3_500)
    unseen = text[-100_000:]
    ids = tokenizer.text_ids([unseen])[0]
    assert ids.count(tokenizer.unk_id) < 0.01 * len(ids)


# === Lines of vocab.txt. Refused files are tested in `test_files`. ===


def test_lines_are_ids(tmp_path):
    path = tmp_path / "words.txt"
    for end in ("\n", "\r\n"):
        path.write_bytes(end.join(VOCABULARY).encode())
        assert read_vocabulary(path) == list(VOCABULARY)
