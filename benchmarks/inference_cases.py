"""The texts that sentence encoders are measured on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks.embedders import Case
from bert_keras import Tokenizer
from bert_keras.data import read_table
from bert_keras.training.demo_corpus import documents

SENTENCES, PARAGRAPHS, SINGLE = "sentences", "paragraphs", "single texts"
LENGTHS, BATCHES, BATCH = (8, 16, 32, 64, 128, 256), (1, 2, 4, 8, 16, 32, 64), 32


def texts_of(data: Path | None) -> tuple[list[str], list[str]]:
    """All sentences, and all paragraphs of 500 to 700 characters."""
    if data is None:
        lines = list(dict.fromkeys(line for document in documents() for line in document))
        return [line for line in lines if len(line) <= 120], _paragraphs(lines)
    table = read_table(
        data / "stsb" / "official_dev.tsv",
        text="sentence1",
        pair="sentence2",
        label="score",
        problem="regression",
    )
    sentences = list(dict.fromkeys([*table.texts, *(table.pairs or ())]))
    with (data / "enwiki" / "enwiki_20MB.txt").open(encoding="utf-8") as file:
        return sentences, _paragraphs(line.rstrip("\n") for line in file)


def _paragraphs(lines: Iterable[str]) -> list[str]:
    return [line for line in lines if 500 <= len(line) <= 700]


def cases_of(
    tokenizer: Tokenizer,
    sentences: list[str],
    paragraphs: list[str],
    max_length: int,
    operations: Callable[[int], int],
    *,
    quick: bool = False,
    sweep: bool = False,
) -> list[Case]:
    """Return the cases to measure, of texts taken evenly from all.

    Args:
        tokenizer: tells lengths.
        sentences: short texts.
        paragraphs: long ones.
        max_length: where texts are cut.
        operations: of a text of so many tokens.
        quick: few texts.
        sweep: lengths and batches of many sizes too.
    """

    def case(name: str, texts: list[str], batch_size: int, *, one_by_one: bool = False) -> Case:
        lengths = tokenizer(texts, max_length=max_length)["padding_mask"].sum(axis=1)
        sizes = {"tokens": int(lengths.sum()), "longest": int(lengths.max())}
        sizes["operations"] = sum(map(operations, lengths.tolist()))
        return Case(name, texts, batch_size, **sizes, one_by_one=one_by_one)

    counts = (64, 16, 20) if quick else (512, 128, 200)
    found = [
        case(SENTENCES, _evenly(sentences, counts[0]), BATCH),
        case(PARAGRAPHS, _evenly(paragraphs, counts[1]), BATCH),
        case(SINGLE, _evenly(sentences, counts[2]), 1, one_by_one=True),
    ]
    if sweep:
        ids = _whole_words(tokenizer, tokenizer.text_ids([" ".join(paragraphs[:300])])[0])
        for length in (length for length in LENGTHS if length <= max_length):
            size = length - 2  # [CLS] and [SEP]
            starts = range(0, BATCH * size, size)
            texts = [tokenizer.decode(ids[start : start + size]) for start in starts]
            found.append(case(f"length {length}", texts, BATCH))
        few = _evenly(sentences, max(BATCHES))
        found += [case(f"batch {size}", few, size) for size in BATCHES]
    return found


def _whole_words(tokenizer: Tokenizer, ids: list[int]) -> list[int]:
    """Those that are words of one piece, so that any row of them is a text of as many tokens."""
    is_word = [piece.isascii() and piece.isalpha() for piece in tokenizer.vocabulary]
    return [number for number in ids if is_word[number]]


def _evenly(texts: list[str], count: int) -> list[str]:
    return texts[:: max(len(texts) // count, 1)][:count]
