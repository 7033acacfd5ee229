"""Pretraining and fine-tuning of every family by the programs, from a text to predictions."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bert_keras import PRESETS, Tokenizer
from bert_keras.checkpoints.hugging_face_names import FAMILIES
from bert_keras.errors import UsageError
from bert_keras.training import finetune, predict, prepare, pretrain
from bert_keras.training.pretrain_recipe import PretrainRecipe
from tests.families import config_of

LOSSES = ("mlm", "nsp", "sop", "rtd")
SIZES = {"wordpiece": 300, "bpe": 300, "unigram": 120}
# Kinds of tokenizers of families that do not have WordPiece.
KINDS = {
    **dict.fromkeys(("roberta", "data2vec_text", "roberta_prelayernorm", "modernbert"), "bpe"),
    **dict.fromkeys(("eurobert", "ultrabert", "deberta", "deberta_lm_head"), "bpe"),
    **dict.fromkeys(("albert", "xlm_roberta", "camembert", "xlm_roberta_xl"), "unigram"),
    **dict.fromkeys(("deberta_v2", "deberta_v2_lm_head", "rembert", "gte"), "unigram"),
    "jina_embeddings_v3": "unigram",
}
# Rotary, local and gated, in packed rows.
QUICK = (("modernbert", 80),)
VALUES = (
    *("sequence_length=32", "steps=4", "evaluate_every=1", "masking=whole_word"),
    *("dropout=0", "attention_dropout=0"),
)


def _families_and_rows() -> list:
    """Return all families, with padded and with packed rows, as parameters; most are slow."""
    slow = pytest.mark.slow
    pairs = [(family, length) for family in FAMILIES for length in (0, 80)]
    return [pytest.param(*pair, marks=() if pair in QUICK else slow) for pair in pairs]


@pytest.fixture(scope="session")
def corpus(text_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function from a kind of tokenizer to a corpus that was prepared with it."""

    def prepared(kind: str) -> Path:
        if kind == "unigram":
            pytest.importorskip("sentencepiece")
        if kind not in made:
            made[kind] = tmp_path_factory.mktemp("corpora") / kind
            prepare.prepare(
                corpus=str(text_file),
                out=made[kind],
                layout="sentences",
                model=kind,
                vocab_size=SIZES[kind],
                validation_split=0.2,
                workers=1,
            )
        return made[kind]

    made: dict[str, Path] = {}
    return prepared


def _save_config(family: str) -> str:
    """Write the config of a tiny model with 32 positions; return the name of the file."""
    config_of(family, max_positions=32).save(f"{family}.json")
    return f"{family}.json"


@pytest.mark.parametrize(("family", "packed_length"), _families_and_rows())
def test_from_a_text_to_predictions(
    family: str,
    packed_length: int,
    corpus: Callable[[str], Path],
    tiny: str,
    finetuning: Callable[[str], str],
    tmp_path: Path,
    call: Callable,
) -> None:
    """Pretrain in padded or packed rows, go on after a stop, fine-tune in such rows, and predict.

    Packed rows are longer than the model's positions, which limit single examples.
    """
    run, text = tmp_path / "run", corpus(KINDS.get(family, "wordpiece"))
    values = (f"config={_save_config(family)}", f"corpus={text}", f"packed_length={packed_length}")
    command = (pretrain.main, tiny, "out=run", "loss=mlm", *values, *VALUES)
    done = call(*command)
    assert done.code == 0, done.err
    weights = (run / "model.safetensors").read_bytes()
    shutil.rmtree(run / "checkpoints" / "step-00000004")
    (run / "model.safetensors").unlink()
    assert call(*command).code == 0
    assert (run / "model.safetensors").read_bytes() == weights
    assert Tokenizer.from_preset(run).vocab_size == SIZES[KINDS.get(family, "wordpiece")]

    rows = [
        {"text": f"Babo dibe {word}", "label": word} for _ in range(12) for word in ("ka", "mo")
    ]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "new.txt").write_text("Babo dibe ka\n")
    values = ("encoder=run", "train=train.jsonl", "epochs=1", "max_length=16", "batch_size=8")
    packing = f"packing={bool(packed_length)}".lower()
    done = call(finetune.main, finetuning("text_classification"), "out=tuned", *values, packing)
    assert done.code == 0, done.err
    done = call(predict.main, "tuned", "new.txt")
    assert done.code == 0, done.err
    assert json.loads(done.out)["label"] in ("ka", "mo")


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_loss(
    family: str, corpus: Callable[[str], Path], tiny: str, tmp_path: Path, call: Callable
) -> None:
    """Every loss is trained, or refused in a message that names one that is."""
    config = _save_config(family)
    for loss in LOSSES:
        command = (pretrain.main, tiny, f"out={loss}", f"config={config}", f"loss={loss}", *VALUES)
        done = call(*command, f"corpus={corpus('wordpiece')}")
        assert (done.code == 0) == (tmp_path / loss / "model.safetensors").exists()
        if done.code:
            assert done.code == 2, done.err
            assert re.fullmatch(r"error: loss must (not )?be \w+.*\n", done.err)
    assert (tmp_path / "mlm").exists()


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("loss", LOSSES)
def test_a_preset_takes_a_loss_or_the_message_names_one(preset: str, loss: str) -> None:
    recipe = PretrainRecipe(corpus="demo", steps=50, config=preset, loss="mlm")
    try:
        dataclasses.replace(recipe, loss=loss)
    except UsageError as error:
        message = str(error)
    else:
        return
    assert preset in message
    named = re.match(r"loss must be (\w+)(?: or (\w+))?", message)
    for other in filter(None, named.groups() if named else ()):
        assert dataclasses.replace(recipe, loss=other).loss == other
