"""The report of a pretraining and its metrics."""

from __future__ import annotations

import dataclasses
import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from bert_keras.config import BertConfig
from bert_keras.data import Corpus
from bert_keras.models import BertEncoder, MaskedLM
from bert_keras.tokenizers import Tokenizer
from bert_keras.training import machine
from bert_keras.training.pretrain_report import (
    FilledMask,
    Report,
    _shown,
    fill_validation_masks,
    print_summary,
    write_report,
)


@pytest.fixture
def facts() -> Report:
    return Report(
        recipe="wiki_mini",
        command="bert-keras pretrain wiki_mini corpus=wiki.txt",
        date="2026-11-20",
        backend="jax",
        versions={"keras": "3.15.1", "jax": "0.6.0"},
        machine=machine.facts(),
        settings={"steps": 6000, "masking": "token"},
        documents=5_000,
        tokens=4_800_000,
        validation_documents=100,
        validation_tokens=98_000,
        vocab_size=16_000,
        unknown_share=0.0002,
        padding_share=0.031,
        masks_per_row=18.42,
        pair_balance=0.5012,
        entropy=7.11,
        cross_entropy=7.28,
        mlm_loss=5.59,
        mlm_accuracy=0.2212,
        mlm_targets=37_000,
        pair_accuracy=0.61,
        pair_count=2_000,
        parameters=7_600_000,
        steps=6_000,
        tokens_per_second=12_345.6,
        waiting_share=0.0123,
        wall_seconds=3_600.0,
        peak_memory=3 * 2**29,
        attention="cuDNN's kernel | refused",
        filled=[
            FilledMask("a | *b* [MASK] .", "c_d", [("x", 0.5), ("c_d", 0.25)]),
            FilledMask("he was [MASK]", "born", [("##ing", 0.125)]),
        ],
        picture="loss.png",
    )


def test_the_report_says_it_all(tmp_path: Path, facts: Report) -> None:
    path = write_report(tmp_path / "report.md", facts)
    text = path.read_text(encoding="utf-8")

    assert text.startswith("# wiki_mini: pretraining report\n\n")
    for line in (
        "- **MLM loss: 5.590 nats**, 1.52 nats under the unigram entropy.",
        "- **MLM accuracy: 22.1 %**, on 37,000 masked tokens.",
        "- **NSP accuracy: 61.0 %**, on 2,000 pairs (± 2.1 points): better than chance.",
        "![Loss and accuracy over the steps](loss.png)",
        "| training text | 4,800,000 tokens | 5,000 documents |",
        "| validation text | 98,000 tokens | 100 documents |",
        "| [UNK] | 0.020 % | of the tokens; it should be less than 1 % |",
        "| padding | 3.1 % | of the positions in a batch |",
        "| masks | 18.4 | per row |",
        "| pairs | 50.1 % | where B is from elsewhere; about half is right |",
        "| left out | 0.0 % | of all examples, for the balance |",
        "| parameters | 7,600,000 |  |",
        "| steps | 6,000 | in 1:00:00 |",
        "| speed | 12,346 tokens/s | padding not counted |",
        "| waiting | 1.2 % | of the steps' time, for batches |",
        r"| attention | in training | cuDNN's kernel \| refused |",
        "| memory | 1.5 GiB | at the peak |",
        r"| a \| \*b\* [MASK] . | c_d | x 50.0 %, **c_d 25.0 %** |",
        r"| he was [MASK] | born | \#\#ing 12.5 % |",
        "bert-keras pretrain wiki_mini corpus=wiki.txt",
        "| versions | keras 3.15.1, jax 0.6.0 |",
        "| masking | 'token' |",
    ):
        assert line in text.splitlines()
    assert "at best 7.110 nats" in text
    assert "7.280 nats with the frequencies" in text


def test_a_bad_run_is_called_so(tmp_path: Path, facts: Report) -> None:
    bad = dataclasses.replace(facts, mlm_loss=7.42, pair_accuracy=0.515, unknown_share=0.2)
    text = write_report(tmp_path / "report.md", bad).read_text(encoding="utf-8")

    assert "0.31 nats still over the unigram entropy" in text
    assert "(± 2.2 points): no better than chance" in text
    assert "does **not** fit the text" in text


def test_a_run_without_pairs_masks_and_picture(tmp_path: Path, facts: Report) -> None:
    bare = dataclasses.replace(
        facts,
        loss="mlm",
        pair_balance=None,
        pair_accuracy=None,
        pair_count=0,
        filled=(),
        picture=None,
        peak_memory=None,
    )
    text = write_report(tmp_path / "report.md", bare).read_text(encoding="utf-8")

    assert "| memory | unknown | at the peak |" in text
    for absent in ("NSP", "pairs", "Filled masks", "![", "None"):
        assert absent not in text


def test_replaced_tokens_have_their_own_baseline(tmp_path: Path, facts: Report) -> None:
    found = dataclasses.replace(facts, loss="rtd", rtd=(0.3, 0.931, 0.125))
    text = write_report(tmp_path / "report.md", found).read_text(encoding="utf-8")
    assert "**RTD loss: 0.300 nats**, 0.077 nats under knowing their share alone." in text
    assert "**RTD accuracy: 93.1 %**, finding none would be right for 87.5 %." in text


def test_the_summary_shows_text_as_it_is(facts: Report) -> None:
    console = Console(file=io.StringIO(), width=120, _environ={})
    print_summary(facts, console=console)

    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    for part in ("1.52 nats under the unigram entropy", "a | *b* [MASK] .", "c_d 25.0 %", "12,346"):
        assert part in text
    assert "kernel | refused" in " ".join(text.split())


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys; from bert_keras.training import plots, pretrain, progress, recipe_help; "
        "print(sorted({'keras', 'tensorflow', 'jax', 'torch', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=True,
    )
    assert done.stdout == "[]\n"


def test_a_run_that_an_earlier_version_began(tmp_path: Path, facts: Report) -> None:
    path = write_report(tmp_path / "report.md", dataclasses.replace(facts, waiting_share=None))
    assert "| waiting |" not in path.read_text(encoding="utf-8")


# === Masked words of validation texts. test_pretrain.py tests the whole report.


WORDS = ["the", "old", "house", "stands", "near", "a", "river", "where", "people", "fish"]
WORDS += ["in", "early", "morning"]
PIECES = ["##s", "##ing", ".", "7", "un", "##fish"]
TOKENIZER = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *PIECES])


@pytest.fixture(scope="module")
def task() -> MaskedLM:
    config = BertConfig(
        vocab_size=TOKENIZER.vocab_size,
        hidden_size=8,
        num_layers=1,
        num_heads=2,
        intermediate_size=16,
        max_positions=64,
    )
    return MaskedLM(BertEncoder(config))


LENGTH = 64


def _corpus(*texts: str) -> Corpus:
    return Corpus.from_ids([TOKENIZER.text_ids(list(texts))])


def test_ten_texts_with_one_mask_each(task: MaskedLM) -> None:
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, 12)) + " ." for _ in range(30)]
    filled = fill_validation_masks(task, TOKENIZER, _corpus(*texts), LENGTH)
    assert len(filled) == 10
    for mask in filled:
        assert mask.text.count("[MASK]") == 1
        assert mask.answer in WORDS
        original = mask.text.replace("[MASK]", mask.answer)
        assert re.sub(r"\s", "", original) in {re.sub(r"\s", "", text) for text in texts}
        assert len(mask.guesses) == 5
        scores = [score for _, score in mask.guesses]
        assert scores == sorted(scores, reverse=True)
    assert fill_validation_masks(task, TOKENIZER, _corpus(*texts), LENGTH) == filled


def test_only_whole_words_are_asked_for(task: MaskedLM) -> None:
    """Only whole words are masked: no word pieces, numbers or punctuation."""
    text = "houses rivers unfish morning 7 7 unfish fishing ."
    tokens = TOKENIZER.encode(text).tokens
    assert {"##s", "##ing", "un", "##fish"} < set(tokens)
    (filled,) = fill_validation_masks(task, TOKENIZER, _corpus(text), LENGTH)
    assert filled.answer == "morning"


@pytest.mark.parametrize(
    "text",
    ["the old house", "7 7 7 7 7 7 7 7 7 .", "the old house stands near a strange river .", ""],
)
def test_no_text_to_ask(task: Any, text: str) -> None:
    """Texts that are empty, too short, without words or with an unknown word are left out."""
    assert fill_validation_masks(task, TOKENIZER, _corpus(text), LENGTH) == []


def test_texts_fit_the_length_that_was_trained(task: MaskedLM) -> None:
    short = "people fish in the river where people fish"
    filled = fill_validation_masks(
        task, TOKENIZER, _corpus(short, f"{short} in the early morning"), 10
    )
    assert [mask.text.replace("[MASK]", mask.answer) for mask in filled] == [short]


def test_a_token_of_white_space_is_shown() -> None:
    tokenizer = Tokenizer.train([["a b c"] * 9], vocab_size=263, model="bpe")
    shown = {_shown(tokenizer, token_id) for token_id in range(tokenizer.vocab_size)}
    assert "(space)" in shown
    assert "" not in shown
