"""Text without spaces between words, from preparation to predictions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bert_keras as bk
from bert_keras import export
from bert_keras.data import Corpus, MaskedTexts, encode
from bert_keras.data.fill_mask import UNITS
from bert_keras.training import finetune, last_steps, predict, prepare, pretrain
from tests.tokenizers.spaceless import WORDS, sentences

SIZES = {"bpe": 300, "unigram": 50, "char": 26}


VALUES = (
    *("layout=sentences", "validation_split=0.2", "sequence_length=32", "batch_size=4"),
    *("hidden_size=8", "num_layers=1", "num_heads=2", "intermediate_size=16", "max_positions=32"),
    *("steps=4", "warmup_steps=1", "log_every=2", "evaluate_every=1", "eval_examples=8"),
    *("checkpoint_every=1", "workers=1", "masking=whole_word", "lowercase=false"),
)


TINY_SIZES = {
    "hidden_size": 8,
    "num_layers": 1,
    "num_heads": 2,
    "intermediate_size": 8,
    "max_positions": 32,
}


@pytest.fixture
def text(tmp_path: Path) -> str:
    """Return the path of a text of 20 documents in Thai, whose sentences have over 100 letters."""
    lines = sentences(80, length=60)
    documents = ["\n".join(lines[start : start + 4]) for start in range(0, 80, 4)]
    (tmp_path / "thai.txt").write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    return "thai.txt"


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(
        "from bert_keras.training import PretrainRecipe\n\n"
        'recipe = PretrainRecipe(corpus="thai.txt", config="bert_tiny_uncased", steps=50, '
        "learning_rate=1e-3, warmup_steps=1)\n",
        encoding="utf-8",
    )
    return "mine.py"


@pytest.mark.slow
@pytest.mark.parametrize("model", SIZES)
def test_pretrain(
    model: str,
    text: str,
    recipe: str,
    tmp_path: Path,
    call: Callable,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if model == "unigram":
        pytest.importorskip("sentencepiece")
    del text
    exported: list[dict[str, Any]] = []

    def saved_model(_task: Any, _tokenizer: Any, path: Path, **options: Any) -> Path:
        path.mkdir(parents=True)
        exported.append(options)
        return path

    monkeypatch.setattr(export, "saved_model", saved_model)
    monkeypatch.setattr(last_steps, "ask", lambda *_: None)
    values = (f"tokenizer_model={model}", f"vocab_size={SIZES[model]}", "out=run", "loss=mlm")
    done = call(pretrain.main, recipe, *VALUES, *values)
    assert done.code == 0, done.err
    assert "the SavedModel will take ids" not in done.err
    assert [options["ids_only"] for options in exported] == [False]
    assert "SavedModel: " in done.out
    assert Corpus.open(tmp_path / "run" / "corpus" / "train").coverage.unknown_tokens == 0

    tokenizer = bk.Tokenizer.from_preset("run")
    assert tokenizer.vocab_size == SIZES[model]
    task = bk.MaskedLM.from_preset("run")
    texts = [f"{sentence[:20]}[MASK]" for sentence in sentences(3)]
    fills = task.fill_mask(texts, top_k=2)
    task.save_to_preset("again")
    again = bk.MaskedLM.from_preset("again")
    assert again.tokenizer == tokenizer
    assert [
        [[fill.token_id for fill in mask] for mask in row]
        for row in again.fill_mask(texts, top_k=2)
    ] == [[[fill.token_id for fill in mask] for mask in row] for row in fills]


@pytest.mark.slow
@pytest.mark.parametrize("model", SIZES)
def test_finetune_and_predict(model: str, tmp_path: Path, call: Callable) -> None:
    if model == "unigram":
        pytest.importorskip("sentencepiece")
    tokenizer = bk.Tokenizer.train(sentences(80), vocab_size=SIZES[model], model=model)
    config = bk.PRESETS["bert_tiny_uncased"].replace(vocab_size=tokenizer.vocab_size, **TINY_SIZES)
    bk.BertEncoder(config).save_to_preset("run")
    tokenizer.save_to_preset("run")
    rows = [
        {"text": sentence + "แมว" * (number % 2), "label": "ab"[number % 2]}
        for number, sentence in enumerate(sentences(24, length=5))
    ]
    table = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (tmp_path / "train.jsonl").write_text(table, encoding="utf-8")
    (tmp_path / "task.py").write_text(
        "from bert_keras.training import FinetuneRecipe\n\n"
        'recipe = FinetuneRecipe(task="text_classification", workers=1, epochs=1)\n',
        encoding="utf-8",
    )
    done = call(
        *(finetune.main, "task.py", "train=train.jsonl", "dev=train.jsonl", "encoder=run"),
        *("out=tuned", "max_length=32"),
    )
    assert done.code == 0, done.err
    assert "note:" not in done.err
    done = call(predict.main, "tuned", "train.jsonl")
    assert done.code == 0, done.err
    assert len(done.out.splitlines()) == 24


def test_wordpiece_is_said_to_lose_the_text(
    text: str, recipe: str, tmp_path: Path, call: Callable
) -> None:
    """Nearly all sentences are one [UNK]: `prepare` says so, and `pretrain` before it trains."""
    lines = (tmp_path / text).read_text(encoding="utf-8").splitlines()
    # A few sentences with spaces, so that a vocabulary can be learned.
    spaced = [WORDS["thai"], "น้ำ ฝน แมว บ้าน"] * 2
    mixed = "\n".join([*lines, "", *spaced])
    (tmp_path / "mixed.txt").write_text(mixed, encoding="utf-8")
    arguments = ("corpus=mixed.txt", "layout=sentences", "vocab_size=40", "lowercase=false")
    for workers, out in (("1", "one"), ("2", "two")):
        done = call(prepare.main, *arguments, f"out={out}", f"workers={workers}")
        assert done.code == 0, done.err
        assert "words too long for WordPiece" in done.out
        assert " of the words, with 99 % of the characters, are longer than 100" in done.err
        assert "prepare it with model=unigram, model=bpe or model=char" in done.err
    manifests = [
        Path(out, name, "manifest.json").read_bytes()
        for name in ("train", "held_out")
        for out in ("one", "two")
    ]
    assert manifests[0] == manifests[1]
    assert manifests[2] == manifests[3]
    coverage = Corpus.open("one/train").coverage + Corpus.open("one/held_out").coverage
    assert (coverage.words, coverage.long_words) == (80 + 2 * 12 + 2 * 4, 80)
    done = call(pretrain.main, recipe, *VALUES, "corpus=two", "out=run", "export=false", "loss=mlm")
    assert (done.code, "learn from [UNK] alone" in done.err) == (3, True), done.err
    assert "prepare it again with model=unigram, bpe or char" in done.err
    assert not Path("run", "checkpoints").exists()


def test_all_words_are_too_long(text: str, recipe: str, call: Callable) -> None:
    """The refusals name the option of the program."""
    done = call(prepare.main, f"corpus={text}", "layout=sentences", "out=c", "vocab_size=100")
    assert done.code == 3
    assert "100 % of the words" in done.err
    assert "bert-keras prepare model=unigram" in done.err
    done = call(pretrain.main, recipe, *VALUES, "out=run", "vocab_size=100")
    assert done.code == 3
    assert "bert-keras pretrain tokenizer_model=unigram" in done.err


@pytest.mark.parametrize("flags", [["--dry-run"], pytest.param([], marks=pytest.mark.slow)])
def test_a_fine_tuning_says_it_before_it_trains(
    flags: list[str], tmp_path: Path, call: Callable
) -> None:
    tokenizer = bk.Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ok", "fine"])
    config = bk.PRESETS["bert_tiny_uncased"].replace(vocab_size=7, **TINY_SIZES)
    bk.BertEncoder(config).save_to_preset(tmp_path / "encoder")
    tokenizer.save_to_preset(tmp_path / "encoder")
    texts = [*sentences(3, length=60), "ok fine"] * 2
    rows = [{"text": line, "label": "ab"[number % 2]} for number, line in enumerate(texts)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "task.py").write_text(
        "from bert_keras.training import FinetuneRecipe\n\n"
        'recipe = FinetuneRecipe(task="text_classification", workers=1, epochs=1)\n'
    )
    command = (
        *("task.py", "train=train.jsonl", "dev=train.jsonl", "encoder=encoder", "out=run"),
        "max_length=8",
    )
    done = call(finetune.main, *command, *flags)
    assert done.code == 0, done.err
    printed = " ".join((done.out if flags else done.err).split())
    assert "note: train.jsonl: 60 % of the words, with 99 % of the characters" in printed
    assert "use an encoder whose tokenizer is SentencePiece or byte-level BPE" in printed
    if not flags:
        assert done.err.index("note:") < done.err.index("step ")


@pytest.mark.parametrize("masking", UNITS)
@pytest.mark.parametrize("model", ["bpe", "char"])
def test_masks_of_text_without_spaces(model: str, masking: str) -> None:
    """Each row gets masks: a word is a piece or a few, and not a whole sentence."""
    tokenizer = bk.Tokenizer.train(
        sentences(50), vocab_size={**SIZES, "char": 20}[model], model=model
    )
    rows = encode(tokenizer, sentences(20), max_length=64)
    examples = MaskedTexts(tokenizer, rows, masking=masking, batch_size=20, multiple_of=1)
    _, _, weights = examples.batch_of(0, np.arange(20))
    tokens = rows.lengths.mean()
    assert weights["mlm"].sum(axis=1).min() >= 2
    assert weights["mlm"].sum(axis=1).mean() > 0.1 * tokens
