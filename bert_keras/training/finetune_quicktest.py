"""The whole way of a recipe in seconds: made-up examples and a tiny model with random weights."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras

from bert_keras import file_io
from bert_keras.config import BertConfig
from bert_keras.models import BertEncoder
from bert_keras.tokenizers import Tokenizer
from bert_keras.training.finetune_data import Data
from bert_keras.training.finetune_recipe import READING, FinetuneRecipe, usual_values
from bert_keras.training.kinds import kind_of

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_GOOD, _BAD = ("good", "fine", "great"), ("bad", "poor", "awful")
_WORDS = (*_GOOD, *_BAD, "the", "film", "was", "is", "in", "Ada", "Rome", "who", "where", "?")


def prepared(recipe: FinetuneRecipe, folder: Path) -> FinetuneRecipe:
    """The recipe with made-up files, which are written into a folder.

    Files and weights are the same every time, so that a run that was interrupted can go on. The
    recipe names them by the folder as it was given, for it is written to `run.json`.
    """
    given, folder = folder, file_io.expanded(folder)
    folder.mkdir(parents=True, exist_ok=True)
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    pieces = dict.fromkeys(
        (*_SPECIAL, *(w.lower() for w in _WORDS), *letters, *(f"##{c}" for c in letters))
    )
    tokenizer = Tokenizer(list(pieces))
    config = BertConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=16,
        num_layers=1,
        num_heads=2,
        intermediate_size=32,
        max_positions=64,
    )
    keras.utils.set_random_seed(0)
    BertEncoder(config).save_to_preset(folder / "encoder")
    tokenizer.save_to_preset(folder / "encoder")
    values = {
        name: value.replace(str(folder), str(given), 1) if value.startswith(str(folder)) else value
        for name, value in _MAKERS[recipe.task](folder).items()
    }
    usual = usual_values()
    reading: dict[str, Any] = {name: usual[name] for name in (*READING, "labels", "positive")}
    recipe = dataclasses.replace(
        recipe,
        **{**reading, **values},
        encoder=str(given / "encoder"),
        dev=values["train"],
    )
    if recipe.of_a_teacher and not recipe.teacher:
        recipe = dataclasses.replace(recipe, teacher=str(given / "teacher"))
        kind = kind_of(recipe)
        labels = Data.read(recipe, kind).labels
        kind.build(BertEncoder(config), labels).save_to_preset(folder / "teacher")
        tokenizer.save_to_preset(folder / "teacher")
    return recipe


def _table(folder: Path, rows: list[dict]) -> str:
    path = folder / "train.jsonl"
    file_io.write_text(path, "".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def _labels(folder: Path) -> dict[str, str]:
    rows = [{"text": f"the film was {word}", "label": "good"} for word in _GOOD]
    rows += [{"text": f"the film is {word}", "label": "bad"} for word in _BAD]
    return {"train": _table(folder, rows), "text": "text", "label": "label"}


def _several(folder: Path) -> dict[str, str]:
    rows = [{"text": f"{a} {b}", "label": [a, b]} for a in _GOOD for b in _BAD]
    return {"train": _table(folder, rows), "text": "text", "label": "label"}


def _scores(folder: Path) -> dict[str, str]:
    rows = [
        {"text": f"the film was {a}", "pair": f"the film is {b}", "label": float(a in _GOOD)}
        for a in (*_GOOD, *_BAD)
        for b in _GOOD
    ]
    columns = {"text": "text", "pair": "pair", "label": "label"}
    return {"train": _table(folder, rows), **columns}


def _pairs(folder: Path) -> dict[str, str]:
    rows = [
        {
            "text": f"the film was {a}",
            "pair": f"the film is {b}",
            "label": "same" if (a in _GOOD) == (b in _GOOD) else "other",
        }
        for a in (*_GOOD, *_BAD)
        for b in (*_GOOD, *_BAD)
    ]
    columns = {"text": "text", "pair": "pair", "label": "label"}
    return {"train": _table(folder, rows), **columns}


def _entities(folder: Path) -> dict[str, str]:
    path = folder / "train.conll"
    sentences = ["Ada B-PER\nis O\nin O\nRome B-LOC\n", "the O\nfilm O\nwas O\nin O\nRome B-LOC\n"]
    file_io.write_text(path, "\n".join(sentences * 4))
    return {"train": str(path)}


def _questions(folder: Path) -> dict[str, str]:
    context = "the film was good ? Ada is in Rome"
    asked = [("who is in Rome ?", "Ada"), ("where is Ada ?", "Rome")]
    qas = [
        {"id": q, "question": q, "answers": [{"text": a, "answer_start": context.index(a)}]}
        for q, a in asked
    ]
    paragraphs = [{"context": f"{context} {word}", "qas": []} for word in _GOOD]
    for number, paragraph in enumerate(paragraphs):
        paragraph["qas"] = [{**each, "id": f"{number} {each['id']}"} for each in qas]
    content = {"version": "1.1", "data": [{"title": "A", "paragraphs": paragraphs}]}
    path = folder / "train.json"
    file_io.write_text(path, json.dumps(content))
    return {"train": str(path)}


def _choices(folder: Path) -> dict[str, str]:
    rows = [{"prompt": "the film was", "options": [a, b], "answer": 0} for a in _GOOD for b in _BAD]
    return {"train": _table(folder, rows)}


_MAKERS: dict[str, Callable[[Path], dict[str, str]]] = {
    "text_classification": _labels,
    "multi_label_classification": _several,
    "text_regression": _scores,
    "sentence_similarity": _scores,
    "pair_classification": _pairs,
    "retrieval": _scores,
    "token_classification": _entities,
    "question_answering": _questions,
    "multiple_choice": _choices,
}
