"""SavedModels of tasks whose vocabulary has grown: the answers of Predictor, with added tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import BertConfig, Tokenizer, export
from bert_keras.models import (
    BertEncoder,
    MaskedLM,
    QuestionAnswerer,
    SequenceClassifier,
    Task,
    TokenClassifier,
)
from bert_keras.predictor import Predictor
from tests.contracts import as_trained

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

WORDS = ["the", "cat", "sat", "on", "a", "mat", "dog", "new", "york", "c", "##o", "##s", "-", "1"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "[", "]", "e"]
TOKENIZER = (
    Tokenizer(VOCABULARY)
    .add_tokens(["COVID-19", "new york", "cat"])
    .add_tokens(["[E1]"], special=True)
)
TEXTS = ["the COVID-19s cats", "[E1] the Cat [E1]on New York", "a dog [MASK] catcovid-19", ""]
ON_TENSORFLOW = keras.backend.backend() == "tensorflow"


def _task(task_class: type[Task], **options: Any) -> Any:
    """Return a task with a table that is padded to 32 rows, trained for a step."""
    config = BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=8,
        num_layers=1,
        num_heads=2,
        intermediate_size=16,
        max_positions=24,
    )
    task: Any = as_trained(task_class(BertEncoder(config), **options))
    task = task.resize_vocabulary(32, new_rows="normal", seed=1)
    task.tokenizer = TOKENIZER
    return as_trained(task)


def _outputs(folder: Path, *texts: list[str]) -> dict[str, np.ndarray]:
    run = tf.saved_model.load(str(folder)).signatures["serving_default"]
    names = run.structured_input_signature[1]
    inputs = {name: tf.constant(column) for name, column in zip(sorted(names), texts, strict=True)}
    return {name: value.numpy() for name, value in run(**inputs).items()}


@pytest.mark.slow
@pytest.mark.skipif(not ON_TENSORFLOW, reason="exports are of the backend TensorFlow")
@pytest.mark.parametrize("portable", [False, True])
def test_labels_and_masks(portable: bool, tmp_path: Path) -> None:
    task = _task(SequenceClassifier, num_classes=3)
    task.compile("sgd", **task.loss_and_metrics())
    task.fit(TEXTS, [0, 1, 2, 0], batch_size=4, verbose=0)
    export.saved_model(task, TOKENIZER, tmp_path / "labels", portable=portable)
    found = _outputs(tmp_path / "labels", TEXTS)
    expected = Predictor(task, TOKENIZER).predict_scores(TEXTS)
    np.testing.assert_allclose(
        np.take_along_axis(found["scores"], _order(found, task), axis=1), expected, atol=1e-5
    )

    task = _task(MaskedLM)
    # A padded row that would win everywhere is never an answer.
    bias = np.zeros(32, "float32")
    bias[TOKENIZER.vocab_size :] = 100.0
    task.mlm.bias.assign(bias)
    export.saved_model(task, TOKENIZER, tmp_path / "masks", portable=portable, options={"top_k": 4})
    found = _outputs(tmp_path / "masks", TEXTS)
    fills = Predictor(task, TOKENIZER).fill_mask(TEXTS[2], top_k=4)[0]
    assert [token.decode() for token in found["tokens"][2, 0]] == [fill.token for fill in fills]
    assert found["token_ids"].max() < TOKENIZER.vocab_size


def _order(found: dict[str, np.ndarray], task: SequenceClassifier) -> np.ndarray:
    """Return the place of each label among those of an answer, int [texts, labels]."""
    names = [str(name) for name in task.options["labels"] or ("LABEL_0", "LABEL_1", "LABEL_2")]
    return np.array(
        [[[*map(bytes.decode, row)].index(n) for n in names] for row in found["labels"]]
    )


@pytest.mark.slow
@pytest.mark.skipif(not ON_TENSORFLOW, reason="exports are of the backend TensorFlow")
@pytest.mark.parametrize("portable", [False, True])
def test_entities_and_answers(portable: bool, tmp_path: Path) -> None:
    task = _task(TokenClassifier, labels=["O", "B-X", "I-X"])
    export.saved_model(task, TOKENIZER, tmp_path / "tags", portable=portable)
    found = _outputs(tmp_path / "tags", TEXTS)
    entities = Predictor(task, TOKENIZER).predict_entities(TEXTS)
    assert sum(map(len, entities)) > 3
    for row, expected in enumerate(entities):
        got = [*zip(found["start"][row], found["end"][row], strict=True)][: len(expected)]
        assert got == [(entity.start, entity.end) for entity in expected]
    task = _task(QuestionAnswerer)
    options = {"max_question": 6}
    export.saved_model(task, TOKENIZER, tmp_path / "qa", portable=portable, options=options)
    questions = ["the covid-19 cat", "a dog"]
    contexts = ["the COVID-19s sat on New York the mat a dog" * 2, "new york"]
    found = _outputs(tmp_path / "qa", contexts, questions)
    answers = Predictor(task, TOKENIZER).predict_answers(questions, contexts, **options)
    assert [text.decode() for text in found["answer"]] == [answer.text for answer in answers]


@pytest.mark.slow
@pytest.mark.skipif(not ON_TENSORFLOW, reason="exports are of the backend TensorFlow")
def test_a_hub_export_keeps_the_added_tokens(tmp_path: Path) -> None:
    task = _task(MaskedLM)
    export.tf_hub(task, TOKENIZER, tmp_path / "hub")
    assert Tokenizer.from_preset(tmp_path / "hub") == TOKENIZER
    preprocessor: Any = tf.saved_model.load(str(tmp_path / "hub" / "preprocessor"))
    found = preprocessor(tf.constant(TEXTS))["input_word_ids"].numpy()
    for row, ids in zip(found, TOKENIZER.text_ids(TEXTS), strict=True):
        assert row[1 : len(ids) + 1].tolist() == ids
    again = MaskedLM.from_preset(tmp_path / "hub")
    assert again.tokenizer == TOKENIZER
    assert again.encoder.config.vocab_size == 32


def test_a_token_that_no_graph_can_find_is_named(tmp_path: Path) -> None:
    task = SequenceClassifier(_task(MaskedLM).encoder, 2)
    tokenizer = Tokenizer(VOCABULARY).add_tokens([" x"])
    for write in (export.saved_model, export.tf_hub):
        with pytest.raises(ValueError, match="The added token ' x' has a space at an end"):
            write(task, tokenizer, tmp_path / "out")
