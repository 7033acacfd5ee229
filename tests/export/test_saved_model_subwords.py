"""SavedModels with byte-level BPE and SentencePiece take text and answer like Predictor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import BertConfig, Tokenizer, export
from bert_keras.export.clients import TextClient
from bert_keras.models import (
    BertEncoder,
    MaskedLM,
    MultipleChoice,
    QuestionAnswerer,
    SequenceClassifier,
    Task,
    TokenClassifier,
)
from bert_keras.predictor import Predictor
from bert_keras.serving.saved_model_check import foreign_operations
from tests.contracts import as_trained
from tests.tokenizers.subwords import GRAPHS, tokenizer_of

tf = pytest.importorskip("tensorflow")

ON_TENSORFLOW = keras.backend.backend() == "tensorflow"
TEXTS = [
    "the lowest tower, isn't it?",
    "Das Wetter in  München \u2014 schön!\n",
    "<mask> new er [MASK]",
    "",
    "👩‍👩‍👧 cafe\u0301 ½ 中国 한국어",
    "lower and newer " * 12,
]
only_tensorflow = pytest.mark.skipif(
    not ON_TENSORFLOW, reason="exports are of the backend TensorFlow"
)
# Some texts are longer than the model reads.
pytestmark = pytest.mark.filterwarnings(r"ignore:\d+ of \d+ ")
families = pytest.mark.parametrize("name", GRAPHS)


def _task(tokenizer: Tokenizer, task_class: type[Task], **options: Any) -> Any:
    """Return a trained task whose encoder has the segments of the tokenizer's family."""
    config = BertConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=8,
        num_layers=1,
        num_heads=2,
        intermediate_size=16,
        max_positions=40,
        num_segments=2 if tokenizer.scheme.two_segments else 0,
    )
    return as_trained(task_class(BertEncoder(config), **options))


def _answers(folder: Path, **columns: Any) -> dict[str, np.ndarray]:
    run = tf.saved_model.load(str(folder)).signatures["serving_default"]
    assert not foreign_operations(folder)
    inputs = {name: tf.constant(values, tf.string) for name, values in columns.items()}
    return {name: value.numpy() for name, value in run(**inputs).items()}


@only_tensorflow
@families
def test_labels_of_texts_and_pairs(name: str, tmp_path: Path) -> None:
    tokenizer = tokenizer_of(name)
    task = _task(tokenizer, SequenceClassifier, num_classes=3, labels=["a", "b", "c"])
    export.saved_model(task, tokenizer, tmp_path / "labels", pairs=True)
    found = _answers(tmp_path / "labels", text=TEXTS, pair=TEXTS[::-1])
    expected = Predictor(task, tokenizer, pairs=True).predict_scores(TEXTS, TEXTS[::-1])
    for names, scores, row in zip(found["labels"], found["scores"], expected, strict=True):
        order = [b"abc".index(label) for label in names]
        np.testing.assert_allclose(scores, np.asarray(row)[order], atol=1e-5)
    model: Any = tf.saved_model.load(str(tmp_path / "labels"))
    alone = model.signatures["texts"](text=tf.constant(TEXTS))["score"].numpy()
    best = Predictor(task, tokenizer).predict_scores(TEXTS).max(axis=1)
    np.testing.assert_allclose(alone, best, atol=1e-5)


@pytest.mark.slow
@only_tensorflow
@families
def test_masks(name: str, tmp_path: Path) -> None:
    tokenizer = tokenizer_of(name)
    mask = tokenizer.scheme.mask
    texts = [f"the {mask} tower{mask}", "no mask", mask]
    task = _task(tokenizer, MaskedLM)
    export.saved_model(task, tokenizer, tmp_path / "masks", options={"top_k": 4})
    client = TextClient(tmp_path / "masks")
    assert client.mask == mask
    found = client.answer({"text": texts})
    assert found["mask_count"].tolist() == [2, 0, 1]
    for row, place in ((0, 0), (0, 1), (2, 0)):
        fills = Predictor(task, tokenizer).fill_mask(texts[row], top_k=4)[place]
        tokens = [token.decode() for token in found["tokens"][row, place]]
        assert tokens == [fill.token for fill in fills]


@pytest.mark.slow
@only_tensorflow
@families
def test_entities_and_answers(name: str, tmp_path: Path) -> None:
    tokenizer = tokenizer_of(name)
    task = _task(tokenizer, TokenClassifier, num_classes=3, labels=["O", "B-X", "I-X"])
    export.saved_model(task, tokenizer, tmp_path / "tags")
    found = _answers(tmp_path / "tags", text=TEXTS)
    entities = Predictor(task, tokenizer).predict_entities(TEXTS)
    for row, expected in enumerate(entities):
        count = found["count"][row]
        places = [*zip(found["start"][row, :count], found["end"][row, :count], strict=True)]
        assert places == [(entity.start, entity.end) for entity in expected], ascii(TEXTS[row])
    task = _task(tokenizer, QuestionAnswerer)
    options = {"max_question": 10, "stride": 5}
    export.saved_model(task, tokenizer, tmp_path / "qa", options=options)
    questions = [*TEXTS[:3], "who?", "the tower", "low"]
    found = _answers(tmp_path / "qa", question=questions, context=TEXTS)
    answers = Predictor(task, tokenizer).predict_answers(questions, TEXTS, **options)
    assert [text.decode() for text in found["answer"]] == [answer.text for answer in answers]
    assert found["start"].tolist() == [answer.start for answer in answers]
    np.testing.assert_allclose(found["score"], [answer.score for answer in answers], atol=1e-5)


@pytest.mark.slow
@only_tensorflow
@families
def test_choices_and_windows(name: str, tmp_path: Path) -> None:
    tokenizer = tokenizer_of(name)
    task = _task(tokenizer, MultipleChoice)
    export.saved_model(task, tokenizer, tmp_path / "choices")
    prompts, choices = ["the tower", ""], [["low", "new er"], ["wide", ""]]
    found = _answers(tmp_path / "choices", prompt=prompts, options=choices)
    predict: Callable[..., Any] = Predictor(task, tokenizer).predict_choices
    assert found["index"].tolist() == [answer.index for answer in predict(prompts, choices)]
    task = _task(tokenizer, SequenceClassifier, num_classes=2)
    options = {"long_texts": "windows", "stride": 7}
    export.saved_model(task, tokenizer, tmp_path / "long", max_length=16, options=options)
    found = _answers(tmp_path / "long", text=TEXTS)
    predictor = Predictor(task, tokenizer, max_length=16)
    expected = predictor.predict_scores(TEXTS, **options).max(axis=1)
    np.testing.assert_allclose(found["score"], expected, atol=1e-5)


def test_a_part_without_a_graph_is_named(tmp_path: Path) -> None:
    tokenizer = tokenizer_of("roberta", pre_tokenizer={"type": "UnicodeScripts"})
    task = _task(tokenizer, SequenceClassifier, num_classes=2)
    with pytest.raises(ValueError, match=r"it has the pre-tokenizer UnicodeScripts.*ids_only=True"):
        export.saved_model(task, tokenizer, tmp_path / "1")
    with pytest.raises(ValueError, match="TensorFlow Hub's text API has only BERT's WordPiece"):
        export.tf_hub(task, tokenizer, tmp_path / "2")
    assert not any(tmp_path.iterdir())
