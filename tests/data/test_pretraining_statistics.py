"""The documented statistics of pretraining batches hold."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from bert_keras.data.corpus import Corpus
from bert_keras.data.documents import read
from bert_keras.data.pretraining import PretrainingExamples
from bert_keras.tokenizers import Tokenizer

TOKENIZER = Tokenizer(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(995))]
)


def corpus(unknown: float = 0.0, sentences: int = 12) -> Corpus:
    """Return a random corpus with a share of unknown tokens."""
    rng = np.random.default_rng(0)

    def sentence() -> list[int]:
        ids = rng.integers(5, 1000, rng.integers(5, 30))
        return np.where(rng.random(len(ids)) < unknown, TOKENIZER.unk_id, ids).tolist()

    return Corpus.from_ids([[sentence() for _ in range(sentences)] for _ in range(150)])


@pytest.mark.parametrize("loss", ["nsp", "sop", "mlm", "rtd"])
def test_figures_of_a_plain_corpus(loss: str) -> None:
    source = PretrainingExamples(
        corpus(unknown=0.05), TOKENIZER, sequence_length=64, batch_size=16, loss=loss
    )
    figures = source.statistics(0, batches=10**6)
    assert figures["batches"] == source.num_batches(0)
    assert figures["tokens"] == sum(
        source.batch(0, p)[0]["padding_mask"].sum() for p in range(source.num_batches(0))
    )
    assert 0 < figures["padding_share"] < 0.35
    assert abs(figures["unknown_share"] - 0.05) < 0.01
    assert abs(figures["mask_share"] - 0.15) < 0.01
    assert figures["masks_per_row"] <= 10
    shares = [figures[f"{name}_share"] for name in ("shown", "replaced", "kept")]
    assert sum(shares) == pytest.approx(1)
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=0.04)
    assert figures["dropped_share"] == 0
    if loss in ("mlm", "rtd"):
        assert not any(f"{name}_share" in figures for name in ("nsp", "sop", "rtd"))
    else:
        assert abs(figures[f"{loss}_share"] - 0.5) < 0.08


def test_what_is_left_out_is_told() -> None:
    """The statistics contain the share of dropped text."""
    documents = [[[5, 6, 7]]] * 90 + [[[8, 9], [10, 11]]] * 10
    source = PretrainingExamples(
        Corpus.from_ids(documents), TOKENIZER, sequence_length=16, batch_size=2
    )
    figures = source.statistics()
    assert figures["dropped_share"] > 0.5
    assert figures["nsp_share"] == pytest.approx(0.5, abs=0.1)


@pytest.mark.data
def test_figures_of_real_text(shared_data: Path) -> None:
    vocabulary = (shared_data / "bert_vocabs" / "bert-base-chinese-vocab.txt").read_text("utf-8")
    tokenizer = Tokenizer(vocabulary.removesuffix("\n").split("\n"))
    text = shared_data / "zh_corpus" / "zh_modern_6MB.txt"
    documents = islice(read(text, layout="sentences"), 60)
    corpus = Corpus.from_ids(tokenizer.text_ids(sentences) for sentences in documents)
    for length in (64, 128):
        source = PretrainingExamples(corpus, tokenizer, sequence_length=length)
        labels = source.plan(0).label
        assert len(labels) > 1000
        assert abs(labels.mean() - 0.5) < 2 / len(labels) + 5 * np.sqrt(0.25 / len(labels))
        figures = source.statistics()
        assert figures["dropped_share"] == 0
        assert figures["padding_share"] < 0.1
        assert figures["mask_share"] == pytest.approx(0.15, abs=0.005)
