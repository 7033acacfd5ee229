"""SavedModels of every family, with its published kind of tokenizer, answer as Predictor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import Tokenizer, export
from bert_keras.checkpoints.hugging_face_names import FAMILIES
from bert_keras.models import BertEncoder, SequenceClassifier
from bert_keras.predictor import Predictor
from tests.contracts import as_trained
from tests.families import config_of
from tests.tokenizers.family_folders import ENGINES, write_tokenizer
from tests.tokenizers.learners import SENTENCES

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")
pytest.importorskip("sentencepiece")

if keras.backend.backend() != "tensorflow":
    pytest.skip("exports are of the backend TensorFlow", allow_module_level=True)

TEXTS = [
    *SENTENCES,
    "a <mask> b [MASK] <|mask|> c </s> [SEP] <|end|> d",
    "caf\u00e9 cafe\u0301 \u00bd \ufb01  \u4e2d\u56fd \ud55c\uad6d\uc5b4",
    "\U0001f469\u200d\U0001f467\n\t12345",
    "",
]
OPTIONS: dict[str, Any] = {"labels": ["a", "b", "c"], "hidden_activation": "tanh"}
# MPNet runs every time: it has two [SEP] between texts, and no segments. `.ci/full` runs all, such
# as EuroBERT with its [CLS] before the second text, and DeBERTa with SentencePiece.
FEW = ("mpnet",)
# Some texts are longer than the model reads.
pytestmark = pytest.mark.filterwarnings(r"ignore:\d+ of \d+ ")


@pytest.mark.parametrize(
    "family",
    [pytest.param(name, marks=[] if name in FEW else [pytest.mark.slow]) for name in FAMILIES],
)
def test_texts_and_pairs(family: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    model_type = FAMILIES[family].model_types[0]
    library = request.getfixturevalue("transformers") if model_type in ENGINES else None
    write_tokenizer(tmp_path / "tokenizer", model_type, library)
    tokenizer = Tokenizer.from_preset(tmp_path / "tokenizer")
    config = config_of(family, vocab_size=tokenizer.vocab_size, max_positions=48)
    task = as_trained(SequenceClassifier(BertEncoder(config), 3, **OPTIONS))
    export.saved_model(task, tokenizer, tmp_path / "labels", pairs=True)
    model: Any = tf.saved_model.load(str(tmp_path / "labels"))
    others = TEXTS[::-1]
    predictor = Predictor(task, tokenizer, pairs=True)
    expected = {
        "serving_default": predictor.predict_scores(TEXTS, others),
        "texts": predictor.predict_scores(TEXTS),
    }
    columns = {"text": TEXTS, "pair": others}
    for name, rows in expected.items():
        run = model.signatures[name]
        wanted = run.structured_input_signature[1]
        found = run(**{key: tf.constant(columns[key]) for key in wanted})
        labels, scores = _ordered(rows)
        assert found["labels"].numpy().tolist() == labels
        np.testing.assert_allclose(found["scores"], scores, atol=1e-5)
        np.testing.assert_allclose(found["score"], np.max(rows, axis=1), atol=1e-5)


def _ordered(rows: np.ndarray) -> tuple[list[list[bytes]], np.ndarray]:
    """Return the labels of each row by descending score, and the scores."""
    order = np.argsort(-rows, axis=1)
    labels = [[b"abc"[index : index + 1] for index in row] for row in order]
    return labels, np.take_along_axis(rows, order, axis=1)
