"""Training of tokenizers that need no spaces between words: byte-level BPE, unigram, characters.

Words are counted in bounded memory first. In text without spaces a word may be a whole sentence, so
it is cut into parts. The same corpus gives the same tokenizer in every process, with any number of
threads. BPE is learned by the `tokenizers` library. Its unigram trainer adds floats in the order of
a hash table, which differs between processes; so SentencePiece learns the unigram model.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

import tokenizers as hf
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from bert_keras import file_io
from bert_keras.errors import DataError
from bert_keras.tokenizers import backends
from bert_keras.tokenizers.backend_files import parse_sentencepiece
from bert_keras.tokenizers.backends import Engine
from bert_keras.tokenizers.basic_tokenizer import without_surrogates
from bert_keras.tokenizers.encoding import BERT
from bert_keras.tokenizers.vocabulary import COVERAGE, SPECIAL_TOKENS
from bert_keras.tokenizers.word_counts import Progress, count_words, most_words, no_progress

MODELS = ("wordpiece", "bpe", "unigram", "char")  # kinds of tokenizers that can be trained
_BYTES = 256
_PART = 64  # characters: a longer word is cut into parts before it is counted
_MOST_CHARACTERS = 2_000_000  # of the different parts; twice as many take SentencePiece minutes
# Words to learn BPE from. The counts of a larger corpus are scaled down.
_MOST_WORDS = 10_000_000
_AT_ONCE = 10_000  # words in a text for the trainer
_LONGEST_PIECE = 16  # characters, as in SentencePiece
_THREADS = 1  # SentencePiece adds floats thread by thread, so their number changes the result
# Letters with their marks, digits, and other characters, each with the space before it. RoBERTa's
# rule ends a word at a mark, and the vowels of Thai and its neighbours are marks.
_BPE_WORDS = r" ?[\p{L}\p{M}]+| ?\p{N}+| ?[^\s\p{L}\p{M}\p{N}]+|\s+(?!\S)|\s+"


def check_model(model: str, vocab_size: int) -> None:
    """Check that a tokenizer of a kind can be trained, before any text is read.

    Args:
        model: one of `MODELS`; see `Tokenizer.train`.
        vocab_size: number of entries.

    Raises:
        ImportError: if the model needs SentencePiece, which is not installed.
        ValueError: if there is no such model, or `vocab_size` is too small for any corpus.
    """
    if model not in MODELS:
        raise ValueError(f"`model` must be one of {', '.join(MODELS)}. Received: {model!r}")
    if model == "bpe" and vocab_size < (least := len(SPECIAL_TOKENS) + _BYTES):
        raise ValueError(
            f'`vocab_size` must be at least {least} with model="bpe", for {len(SPECIAL_TOKENS)} '
            f"special tokens and {_BYTES} bytes. Received: vocab_size={vocab_size}"
        )
    if vocab_size <= len(SPECIAL_TOKENS):
        raise ValueError(
            f"`vocab_size` must be more than the {len(SPECIAL_TOKENS)} special tokens. "
            f"Received: vocab_size={vocab_size}"
        )
    if model == "unigram":
        _sentencepiece()


def train_engine(
    documents: Iterable[str | Iterable[str]],
    *,
    model: str,
    vocab_size: int,
    lowercase: bool,
    strip_accents: bool | None,
    progress: Progress | None,
) -> Engine:
    """Train a tokenizer of a kind other than WordPiece; see `Tokenizer.train`.

    Raises:
        DataError: if the corpus is too small, or its alphabet too large for the vocabulary.
    """
    normalizer = _normalizer(
        lowercase=lowercase, strip_accents=bool(strip_accents), compatibility=model != "bpe"
    )
    pre_tokenizer = pre_tokenizers.Split(hf.Regex(_BPE_WORDS), "isolated")

    def split(text: str) -> list[str]:
        """Return the words of a text, cut into parts of at most `_PART` characters."""
        text = normalizer.normalize_str(without_surrogates(text))
        words = (
            [word for word, _ in pre_tokenizer.pre_tokenize_str(text) if not word.isspace()]
            if model == "bpe"
            else text.split()
        )
        return [*chain.from_iterable(map(_parts, words))]

    report = progress or no_progress
    counts, coverage = count_words(
        documents, split, report, most_words(vocab_size), _MOST_CHARACTERS
    )
    if not counts:
        raise DataError(
            f"the corpus has no words. Received: {coverage.characters:,} characters. Add text."
        )
    report(0, None, "learning entries")
    engine = _LEARNERS[model](counts, vocab_size, normalizer)
    report(vocab_size, vocab_size, "learning entries")
    return engine


def _parts(word: str) -> Iterator[str]:
    """Yield a word in parts of at most `_PART` characters."""
    return (word[start : start + _PART] for start in range(0, len(word), _PART))


def _normalizer(
    *, lowercase: bool, strip_accents: bool, compatibility: bool
) -> normalizers.Normalizer:
    """Return the normaliser of a tokenizer.

    Args:
        lowercase: lower-case the text.
        strip_accents: remove combining marks.
        compatibility: apply NFKC and the rules for control characters of SentencePiece's `nmt_nfkc`
            first. They make a space of U+200B, which separates words in Khmer text.
    """
    steps: list[normalizers.Normalizer] = []
    if compatibility:
        steps += [normalizers.Nmt(), normalizers.NFKC()]
    if lowercase:
        steps.append(normalizers.Lowercase())
    if strip_accents:
        steps += [normalizers.NFD(), normalizers.StripAccents(), normalizers.NFC()]
    return normalizers.Sequence(steps)


# === Byte-level BPE ===
# Pairs are learned from characters, and written as pairs of bytes. Learned from bytes, pieces of
# Thai would begin and end within a character, because its letters share their first two bytes.


_TO_BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def _learn_bpe(counts: Counter[str], vocab_size: int, normalizer: normalizers.Normalizer) -> Engine:
    """Learn byte-level BPE (Radford et al., 2019, §2.2) from counted words."""
    room = vocab_size - len(SPECIAL_TOKENS) - _BYTES
    characters, spellings = _frequent_characters(counts, room // 2)
    runs: Counter[str] = Counter()
    for word, n in counts.items():
        kept = "".join(c if c in characters else "\n" for c in word)  # no word has a line break
        runs.update(dict.fromkeys(filter(None, kept.split("\n")), n))
    learner = hf.Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.Split("\n", "removed")
    alphabet = sorted({*chain.from_iterable(runs)})
    trainer = trainers.BpeTrainer(
        vocab_size=len(alphabet) + room - len(spellings),
        max_token_length=_LONGEST_PIECE,
        show_progress=False,
    )
    learner.train_from_iterator(_repeated(runs), trainer)
    content = file_io.decode_json(learner.to_str(), "tokenizer.json")
    pairs = [(part[:-1], part[-1]) for part in spellings]
    pairs += [(_in_bytes(left), _in_bytes(right)) for left, right in content["model"]["merges"]]
    merged = [left + right for left, right in pairs]
    entries = [*SPECIAL_TOKENS, *sorted(_TO_BYTES.alphabet()), *dict.fromkeys(merged)]
    if len(entries) < vocab_size:
        raise _too_few(counts, len(entries), vocab_size)
    ids = {entry: index for index, entry in enumerate(entries)}
    engine = hf.Tokenizer(models.BPE(ids, pairs))
    engine.normalizer = normalizer
    engine.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(hf.Regex(_BPE_WORDS), "isolated"), _TO_BYTES]
    )
    engine.decoder = decoders.ByteLevel()
    return Engine(engine.to_str(), BERT)


def _frequent_characters(counts: Counter[str], room: int) -> tuple[set[str], list[str]]:
    """Return the most frequent characters of words, and the entries that spell them.

    Args:
        counts: word -> count.
        room: most entries for the spellings.

    Returns:
        The characters; and the beginnings of their bytes, of two bytes or more, each after its own
        beginning. A character of one byte needs no entry.
    """
    total = _characters(counts)
    kept: set[str] = set()
    spellings: set[str] = set()
    uncovered = left = total.total()
    for character, n in sorted(total.items(), key=lambda item: (-item[1], item[0])):
        in_bytes = _in_bytes(character)
        more = {in_bytes[:end] for end in range(2, len(in_bytes) + 1)} | spellings
        if uncovered <= (1 - COVERAGE) * left or len(more) > room:
            break
        kept.add(character)
        spellings, uncovered = more, uncovered - n
    return kept, sorted(spellings, key=lambda part: (len(part), part))


def _characters(counts: Counter[str]) -> Counter[str]:
    """Return how often each character occurs in counted words."""
    characters: Counter[str] = Counter()
    for word, count in counts.items():
        for character in word:
            characters[character] += count
    return characters


def _in_bytes(text: str) -> str:
    """Return a text as byte-level vocabularies write it: a character for each byte of UTF-8."""
    return "".join(part for part, _ in _TO_BYTES.pre_tokenize_str(text))


def _repeated(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield all words, each as often as it was counted, in texts with a word on each line.

    The trainer takes texts and no counts. If there are more than `_MOST_WORDS`, all counts are
    divided by the same number, and each is at least 1.
    """
    share = min(1.0, _MOST_WORDS / max(1, sum(counts.values())))
    words = chain.from_iterable(
        [word] * max(1, round(counts[word] * share)) for word in sorted(counts)
    )
    while some := list(islice(words, _AT_ONCE)):
        yield "\n".join(some)


# === Unigram and characters ===


def _learn_unigram(
    counts: Counter[str], vocab_size: int, normalizer: normalizers.Normalizer
) -> Engine:
    """Learn a unigram language model (Kudo, 2018) from counted words, with SentencePiece."""
    with tempfile.TemporaryDirectory() as folder:
        words = Path(folder, "words.tsv")
        with words.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{word}\t{counts[word]}\n" for word in sorted(counts))
        model = _train_sentencepiece(words, counts, vocab_size, folder)
    pieces = parse_sentencepiece(model, "the learned model").pieces
    return _engine(pieces[1:], normalizer)


def _train_sentencepiece(
    words: Path, counts: Mapping[str, int], vocab_size: int, folder: str
) -> bytes:
    """Return the SentencePiece model of a file of words and their counts.

    Its first piece is the unknown one. The others fill the vocabulary beside the special tokens.
    """
    added = len(SPECIAL_TOKENS) - 1
    prefix = Path(folder, "model")
    try:
        _sentencepiece().SentencePieceTrainer.train(
            input=str(words),
            input_format="tsv",
            model_prefix=str(prefix),
            model_type="unigram",
            vocab_size=vocab_size - added,
            character_coverage=COVERAGE,
            max_sentencepiece_length=_LONGEST_PIECE,
            normalization_rule_name="identity",
            unk_id=0,
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            num_threads=_THREADS,
            minloglevel=2,
        )
    except RuntimeError as error:
        if most := re.search(r"Vocabulary size too high \(\d+\)\D+(\d+)", str(error)):
            raise _too_few(counts, int(most[1]) + added, vocab_size) from None
        if sizes := re.search(r"required_chars\. \d+ vs (\d+)", str(error)):
            raise DataError(
                "the alphabet of the corpus does not fit into the vocabulary. Received: "
                f"vocab_size={vocab_size:,}. Pass {int(sizes[1]) + added:,} or more."
            ) from None
        raise DataError(
            f"SentencePiece cannot learn from the corpus: {error} Received: {len(counts):,} "
            "different words. Add text."
        ) from error
    return prefix.with_suffix(".model").read_bytes()


def _learn_characters(
    counts: Counter[str], vocab_size: int, normalizer: normalizers.Normalizer
) -> Engine:
    """Make a vocabulary of the most frequent characters, as SentencePiece's model type `char`."""
    characters = _characters(counts)
    characters[backends.WORD_START] += sum(counts.values())
    room = vocab_size - len(SPECIAL_TOKENS)
    if len(characters) < room:
        raise _too_few(counts, len(SPECIAL_TOKENS) + len(characters), vocab_size)
    kept = sorted(characters, key=lambda character: (-characters[character], character))[:room]
    total = characters.total()
    return _engine([(char, math.log(characters[char] / total)) for char in kept], normalizer)


def _engine(pieces: list[tuple[str, float]], normalizer: normalizers.Normalizer) -> Engine:
    """Return the tokenizer of (piece, log probability), with the special tokens before them."""
    special = [(token, 0.0) for token in SPECIAL_TOKENS]
    engine = hf.Tokenizer.from_str(backends.unigram([*special, *pieces], BERT).json)
    engine.normalizer = normalizer
    return Engine(engine.to_str(), BERT)


_LEARNERS: dict[str, Callable[[Counter[str], int, normalizers.Normalizer], Engine]] = {
    "bpe": _learn_bpe,
    "unigram": _learn_unigram,
    "char": _learn_characters,
}


def _too_few(counts: Mapping[str, int], entries: int, vocab_size: int) -> DataError:
    """Return the error of a corpus that gives fewer entries than were asked for."""
    return DataError(
        f"the corpus ({sum(counts.values()):,} words, {len(counts):,} different) gives at most "
        f"{entries:,} vocabulary entries. Received: vocab_size={vocab_size:,}. Pass {entries:,} or "
        "less, or add text."
    )


def _sentencepiece() -> Any:
    """Return the module `sentencepiece`.

    Raises:
        ImportError: it is not installed.
    """
    try:
        import sentencepiece
    except ImportError as error:
        raise ImportError(
            'model="unigram" is learned by SentencePiece: pip install "bert-keras[sentencepiece]". '
            f'The models "bpe" and "char" do not need it. ({error})'
        ) from error
    return sentencepiece
