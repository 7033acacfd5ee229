"""The d2l benchmark splits the text as the book does, and compares the losses."""

from __future__ import annotations

import io
import json
from pathlib import Path

import keras
import numpy as np
import pytest
from rich.console import Console

from benchmarks import d2l
from benchmarks.d2l import book_network, compile_as_book
from bert_keras import Tokenizer
from bert_keras.data import Corpus, PretrainingExamples

_TEXT = """
 = A Heading =

 The cat <unk> . The dog sat . The end .
 One sentence only .
 U.S. prices rose @,@ he said . Nobody knew .
"""


def test_paragraphs_are_lines_of_two_sentences_in_lower_case() -> None:
    assert d2l.paragraphs(_TEXT) == [
        [["the", "cat", "<unk>"], ["the", "dog", "sat"], ["the", "end", "."]],
        [["u.s.", "prices", "rose", "@,@", "he", "said"], ["nobody", "knew", "."]],
    ]


def test_the_vocabulary_has_the_words_that_occur_five_times() -> None:
    text = [[["often"] * 5 + ["<unk>"] * 9, ["seldom"] * 4 + ["more"] * 6]]
    assert d2l.vocabulary(text) == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "more", "often"]


def _parts() -> d2l.Parts:
    text = d2l.paragraphs(d2l.made_up())
    return d2l.Parts.of(text, [[["w1", "strange"], ["w2"]], [["w3"], ["w3"]]])


def test_other_words_are_unknown(tmp_path: Path) -> None:
    parts = _parts()
    words = [parts.tokenizer.id_to_token(int(token)) for token in parts.validation.tokens]
    assert words == ["w1", "[UNK]", "w2", "w3", "w3"]

    parts.save(tmp_path / "corpus")
    tokenizer = Tokenizer.from_preset(tmp_path / "corpus")
    assert tokenizer == parts.tokenizer
    for name, corpus in (("train", parts.train), ("held_out", parts.validation)):
        read = Corpus.open(tmp_path / "corpus" / name, verify=True)
        np.testing.assert_array_equal(read.tokens, corpus.tokens)
        PretrainingExamples(read, tokenizer, sequence_length=8, batch_size=1)


def _row(mlm: float, nsp: float) -> dict[str, float]:
    figures = dict.fromkeys(d2l.LOSSES, 1.0) | {"held_out_nsp_accuracy": 0.5, "seconds": 1.0}
    return figures | {"held_out_mlm": mlm, "held_out_nsp": nsp}


def test_what_is_lower_is_the_mean_over_the_seeds() -> None:
    """The report shows by how much the mean loss over all seeds is lower."""
    screen = io.StringIO()
    rounds = {
        "book": [_row(6.0, 0.7), _row(6.2, 0.7)],
        "other": [_row(5.0, 0.0)] * 2,
        "ours": [_row(5.6, 0.62), _row(5.8, 0.64)],
    }
    lower = d2l.show(rounds, Console(file=screen, width=200))
    assert lower == pytest.approx(
        {"train_mlm": 0, "train_nsp": 0, "held_out_mlm": 0.4, "held_out_nsp": 0.07}
    )
    assert "validation mlm: 0.400 lower; wanted 0.3: reached" in screen.getvalue()
    assert "validation nsp: 0.070 lower; wanted 0.1: MISSED" in screen.getvalue()


def test_the_compared_ones_run_first() -> None:
    assert d2l.in_turn(["a", "b", "c"], 2) == [
        *[("a", 0), ("c", 0), ("a", 1), ("c", 1)],
        *[("b", 0), ("b", 1)],
    ]
    assert d2l.in_turn(["a"], 1) == [("a", 0)]


def test_a_quick_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["d2l", "--quick", "--out", str(tmp_path / "d2l.json")])
    d2l.main()
    found = json.loads((tmp_path / "d2l.json").read_text())
    names = ["d2l.ai, Adam 0.01", "d2l.ai, Adam 0.001", "recipe d2l_wikitext2"]
    assert list(found["results"]) == names
    assert all(set(d2l.LOSSES) <= set(rounds[0]) for rounds in found["results"].values())


# === The book's network has the right sizes, initial weights and loss ===


_VOCAB = 50


def test_sizes_of_the_network() -> None:
    model = book_network(_VOCAB, seed=0)
    tables = (2 * _VOCAB + 2 + 64) * 128 + _VOCAB  # the output layer has a table of its own
    attention = 4 * (128 * 128 + 128)
    block = attention + (128 * 256 + 256) + (256 * 128 + 128) + 4 * 128
    # Pooler and MLM head; layer normalisation; NSP head.
    heads = (128 * 128 + 128) * 2 + 2 * 128 + (128 * 2 + 2)
    assert model.count_params() == tables + 2 * block + heads


def test_weights_are_drawn_as_pytorch_draws_them() -> None:
    weights = {weight.path: weight for weight in book_network(_VOCAB, seed=0).weights}
    drawn = {path: keras.ops.convert_to_numpy(weight) for path, weight in weights.items()}
    for name in ("tokens", "positions"):
        assert 0.9 < drawn[f"{name}/embeddings"].std() < 1.1
    limits = {
        "block_0/attention/query/kernel": 128**-0.5,
        "block_0/feedforward/output/kernel": 256**-0.5,
        "block_1/feedforward/output/bias": 256**-0.5,
        "nsp/dense/kernel": 128**-0.5,
    }
    limits["mlm/output_table/embeddings"] = limits["mlm/bias"] = 128**-0.5
    for path, limit in limits.items():
        largest = np.abs(drawn[path]).max()
        assert 0.75 * limit < largest <= limit * (1 + 1e-6), path
    np.testing.assert_array_equal(drawn["block_0/attention_layer_norm/gamma"], 1.0)
    again = {weight.path: weight for weight in book_network(_VOCAB, seed=0).weights}
    np.testing.assert_array_equal(
        drawn["tokens/embeddings"], keras.ops.convert_to_numpy(again["tokens/embeddings"])
    )


def test_every_weight_learns() -> None:
    model = book_network(_VOCAB, seed=0)
    compile_as_book(model, 0.01)
    rng = np.random.default_rng(0)
    inputs = {
        "token_ids": rng.integers(0, _VOCAB, (8, 64)),
        "segment_ids": np.tile(np.arange(64) // 32, (8, 1)),
        "padding_mask": np.ones((8, 64), np.int32),
        "mask_positions": np.tile(np.arange(1, 11), (8, 1)),
    }
    inputs = {name: values.astype(np.int32) for name, values in inputs.items()}
    targets = {
        "mlm": rng.integers(0, _VOCAB, (8, 10)).astype(np.int32),
        "nsp": (np.arange(8) % 2).astype(np.int32),
    }
    before = [keras.ops.convert_to_numpy(weight) for weight in model.trainable_weights]
    logs = model.train_on_batch(inputs, targets, return_dict=True)
    after = [keras.ops.convert_to_numpy(weight) for weight in model.trainable_weights]
    assert all((old != new).any() for old, new in zip(before, after, strict=True))
    assert logs["loss"] == np.float32(logs["mlm_loss"] + logs["nsp_loss"])
