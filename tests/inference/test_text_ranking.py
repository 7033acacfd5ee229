"""Documents are ranked by the scores of a cross-encoder, or by the vectors of other models."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras import SequenceClassifier
from bert_keras.predictor import Predictor, Ranked
from tests import sentence_folders

QUERY = "w1 w2 w30"


@pytest.fixture(scope="module")
def library() -> Any:
    pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("sentence_transformers")


def test_a_cross_encoder(library: Any, transformers: Any, tmp_path: Path) -> None:
    """`rank` returns what `CrossEncoder.rank` of sentence-transformers does."""
    del transformers
    folder = sentence_folders.write_transformer(
        tmp_path / "ranker", "ForSequenceClassification", num_labels=1
    )
    documents = [text for text in sentence_folders.texts(30) if len(text.split()) < 15]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = library.CrossEncoder(str(folder), device="cpu").rank(QUERY, documents, top_k=5)
    for opened in (Predictor.from_preset(folder), SequenceClassifier.from_preset(folder)):
        found = opened.rank(QUERY, documents, top_k=5)
        assert [each.index for each in found] == [each["corpus_id"] for each in expected]
        np.testing.assert_allclose(
            [each.score for each in found], [each["score"] for each in expected], atol=1e-5
        )
        assert all(each.text == documents[each.index] for each in found)
    assert len(opened.rank(QUERY, documents)) == len(documents)


def test_vectors_with_the_prompts_of_queries_and_documents(library: Any, tmp_path: Path) -> None:
    """The order is that of `encode_query` and `encode_document` of sentence-transformers."""
    base = sentence_folders.write_transformer(tmp_path / "base")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        modules = library.sentence_transformer.modules
        theirs = library.SentenceTransformer(
            modules=[modules.Transformer(str(base)), modules.Pooling(sentence_folders.HIDDEN)],
            prompts=sentence_folders.PROMPTS,
            device="cpu",
        )
        theirs.save(str(tmp_path / "vectors"))
    documents = [text for text in sentence_folders.texts(30) if len(text.split()) < 15]
    one, many = theirs.encode_query([QUERY]), theirs.encode_document(documents)
    predictor = Predictor.from_preset(tmp_path / "vectors")
    np.testing.assert_allclose(predictor.encode_queries([QUERY]), one, atol=1e-5)
    np.testing.assert_allclose(predictor.encode_documents(documents), many, atol=1e-5)
    cosines = (many @ one[0]) / np.linalg.norm(many, axis=1) / np.linalg.norm(one)
    found = predictor.rank(QUERY, documents)
    assert [each.index for each in found] == np.argsort(-cosines).tolist()
    np.testing.assert_allclose([each.score for each in found], np.sort(cosines)[::-1], atol=1e-5)
    other = predictor.rank(QUERY, documents, prompt="w9 w9 ")
    assert [each.score for each in other] != [each.score for each in found]


def test_models_without_a_score(task, tokenizer) -> None:
    documents = ["hello world", "un", "the wanted mask"]
    for kind in ("vectors", "tags", "pairs"):
        found = Predictor(task(kind), tokenizer).rank("un", documents)
        assert isinstance(found[0], Ranked)
        assert (found[0].index, found[0].text) == (1, "un")
        assert found[0].score == pytest.approx(1.0, abs=1e-5)
        both = Predictor(task(kind), tokenizer).rank(["un", "hello"], documents, top_k=2)
        assert both[0] == found[:2]
        assert len(both[1]) == 2
    with pytest.raises(ValueError, match=r"one score .*3 classes"):
        Predictor(task("labels"), tokenizer).rank("un", documents)


def test_messages(task, tokenizer) -> None:
    predictor = Predictor(task("vectors"), tokenizer)
    assert predictor.rank("a", []) == []
    assert predictor.rank(["a", "b"], []) == [[], []]
    with pytest.raises(ValueError, match="`top_k` must be at least 1"):
        predictor.rank("a", ["b"], top_k=0)
