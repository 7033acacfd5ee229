"""docs/troubleshooting.md: each message on the page is caused, and is printed as shown.

A section shows its message in its first text block. `PROVOKED` maps each section to the code that
causes the message.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bert_keras as bk
from bert_keras.data import Texts, label_names, read_table
from bert_keras.training import PretrainRecipe
from bert_keras.training.run_folder import PretrainFolder
from tests.markdown import blocks

PAGE = Path(__file__).parents[1] / "docs" / "troubleshooting.md"
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "fine", "dull", "film", "."]
TEXTS, LABELS = ["a fine film", "a dull film"], ["good", "bad"]


def tiny() -> bk.BertEncoder:
    sizes = {"hidden_size": 8, "num_heads": 2, "intermediate_size": 8, "num_layers": 1}
    config = bk.PRESETS["bert_tiny_uncased"].replace(
        vocab_size=len(WORDS), max_positions=16, **sizes
    )
    return bk.BertEncoder(config)


def classifier() -> bk.SequenceClassifier:
    return bk.SequenceClassifier(tiny(), labels=["bad", "good"], tokenizer=bk.Tokenizer(WORDS))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an encoder, a classifier, and files of other libraries."""
    root = tmp_path_factory.mktemp("folders")
    task = classifier()
    task.save_to_preset(root / "reviews")
    task.encoder.save_to_preset(root / "my_bert")
    for name, file in (("old", "tf_model.h5"), ("pickled", "pytorch_model.bin")):
        (root / name).mkdir()
        shutil.copy(root / "my_bert" / "config.json", root / name)
        (root / name / file).write_bytes(b"")
    (root / "reviews.csv").write_text("review,stars\nfine,5\n", encoding="utf-8")
    (root / "notes.csv").write_bytes(b"review,stars\n\xe9t\xe9,5\n")
    return root


def text_without_a_tokenizer() -> Any:
    return bk.SequenceClassifier(tiny(), labels=["bad", "good"]).predict_labels(TEXTS)


def a_loss_of_probabilities() -> Any:
    task = classifier()
    task.compile("adam", "sparse_categorical_crossentropy")
    return task.fit(TEXTS, LABELS)


def a_schedule_that_has_ended() -> Any:
    task = classifier()
    task.compile(bk.optimizer(1e-4, total_steps=1), **task.loss_and_metrics())
    task.fit(TEXTS, LABELS, verbose=0)
    return task.fit(TEXTS, LABELS, verbose=0)


def a_run_with_other_values() -> None:
    recipe = PretrainRecipe(corpus="wiki.txt", steps=100, name="mine", out="runs/mine")
    Path("runs/mine").mkdir(parents=True)  # as `RunLock` makes it
    PretrainFolder(recipe).claim(recipe, "jax", {})
    Path("runs/mine/checkpoints").mkdir()
    longer = dataclasses.replace(recipe, steps=200)
    PretrainFolder(longer).claim(longer, "jax", {})


def an_id_outside_the_table() -> Any:
    ids = np.array([[2, 10, 3]])
    return tiny().predict(
        {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": np.ones_like(ids)}
    )


def an_answer_that_the_context_has_not() -> Any:
    task = bk.QuestionAnswerer(tiny(), tokenizer=bk.Tokenizer(WORDS))
    return task.fit((["fine?"], ["a dull film"]), ["fine"])


PROVOKED: dict[str, Callable[[], Any]] = {
    "A folder is not there": lambda: bk.BertEncoder.from_preset("bert_base_uncase"),
    "A new head has no labels": lambda: bk.SequenceClassifier.from_preset("my_bert"),
    "The folder has other labels": lambda: bk.SequenceClassifier.from_preset(
        "reviews", labels=["bad", "fair", "good"]
    ),
    "The folder has the head of another task": lambda: bk.TokenClassifier.from_preset("reviews"),
    "The folder has no head": lambda: bk.MaskedLM.from_preset("my_bert"),
    "The folder has an extra head": lambda: bk.MaskedLM.from_preset("reviews", allow_missing="mlm"),
    "The weights are a pickle": lambda: bk.BertEncoder.from_preset("pickled"),
    "The weights are those of a TensorFlow class": lambda: bk.BertEncoder.from_preset("old"),
    "The task has no tokenizer": text_without_a_tokenizer,
    "A text is missing": lambda: classifier().fit(["a fine film", None], LABELS),
    "A table with a column of labels": lambda: classifier().fit({"text": TEXTS, "label": LABELS}),
    "Texts and labels differ in number": lambda: classifier().fit(TEXTS, ["good"]),
    "A label is not among the labels": lambda: classifier().fit(TEXTS, ["good", "fair"]),
    "Scores instead of labels": lambda: label_names(Texts(TEXTS, None, [1.5, 4.0])),
    "An answer is not in its context": an_answer_that_the_context_has_not,
    "Texts longer than the model": lambda: classifier().fit(TEXTS, LABELS, max_length=400),
    "The tokenizer is that of another model": lambda: bk.SequenceClassifier(
        tiny(), labels=LABELS, tokenizer=bk.Tokenizer([*WORDS, "good", "bad"])
    ),
    "An id is not in the vocabulary": an_id_outside_the_table,
    "The loss expects probabilities": a_loss_of_probabilities,
    "A run has other values": a_run_with_other_values,
    "The learning rate is 0": a_schedule_that_has_ended,
    "The vocabulary is too large": lambda: bk.Tokenizer.train(["a fine film"], vocab_size=8_000),
    "The file has no such column": lambda: read_table("reviews.csv", text="text"),
    "The file is not UTF-8": lambda: read_table("notes.csv", text="review"),
}


def messages() -> dict[str, str]:
    """Return the message of each section, by the section's title."""
    text = PAGE.read_text(encoding="utf-8")
    sections = re.split(r"^### ", text, flags=re.MULTILINE)[1:]
    return {part.partition("\n")[0]: blocks(part)[0].text for part in sections}


def test_the_page_has_at_least_twenty_messages_and_each_is_provoked() -> None:
    assert list(messages()) == list(PROVOKED)
    assert len(PROVOKED) >= 20


@pytest.mark.parametrize("name", PROVOKED)
def test_the_message_is_printed_like_that(
    name: str, folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folders)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of Keras
        warnings.filterwarnings("error", message="The learning rate is 0")
        with pytest.raises(Exception) as caught:  # noqa: PT011
            PROVOKED[name]()
    assert str(caught.value) == messages()[name]


def test_every_message_has_its_cure() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for part in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        assert "\n**Cure:** " in part, part[:60]
