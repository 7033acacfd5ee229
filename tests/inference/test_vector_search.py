"""Texts are searched among texts, vectors and saved indexes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bert_keras import SentenceEncoder
from bert_keras.inference import vector_search
from bert_keras.predictor import Predictor
from bert_keras.retrieval import PRECISIONS, VectorIndex, nearest

DOCUMENTS = ["hello world", "un", "the wanted mask", "wanted", "world", "un wanted", "hello"]


def test_search_is_the_rank_of_each_query(task, tokenizer, tmp_path: Path) -> None:
    """Texts, vectors of all precisions and a saved index give the same answers as `rank`."""
    predictor = Predictor(task("vectors"), tokenizer)
    queries = ["un", "hello mask"]
    expected = [predictor.rank(query, DOCUMENTS, top_k=3) for query in queries]
    index = predictor.index_documents(iter(DOCUMENTS), tmp_path / "index", model="mine")
    for corpus in (DOCUMENTS, index, predictor.encode_documents(DOCUMENTS)):
        found = predictor.search(queries, corpus, top_k=3)
        for mine, best in zip(found, expected, strict=True):
            assert [each.index for each in mine] == [each.index for each in best]
            np.testing.assert_allclose(
                [each.score for each in mine], [each.score for each in best], atol=1e-5
            )
    assert [each.text for each in found[0]] == ["", "", ""]  # vectors alone have no texts
    one = task("vectors")
    one.tokenizer = tokenizer
    assert one.search("un", index, top_k=1)[0].text == "un"
    for precision in ("int8", "ubinary"):
        small = predictor.encode_documents(DOCUMENTS, precision=precision)
        nearby = nearest(predictor.encode_queries(["un"]), small, top_k=3)
        answers = predictor.search("un", small, top_k=3)
        assert [each.index for each in answers] == nearby.indices[0].tolist()
    assert predictor.search(queries, []) == [[], []]


def test_an_index_keeps_the_options_of_its_documents(
    task, tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queries are cut as the documents were. Blocks give the index of all documents."""
    predictor = Predictor(task("vectors"), tokenizer)
    options = {"prompt": "the ", "truncate_dim": 4, "precision": "float16"}
    whole = predictor.index_documents(DOCUMENTS, tmp_path / "whole", **options)
    calls: list[int] = []
    monkeypatch.setattr(vector_search, "_BLOCK", 3)
    blocks = predictor.index_documents(
        DOCUMENTS, tmp_path / "blocks", progress=calls.append, **options
    )
    assert calls == [3, 6, 7]
    np.testing.assert_allclose(blocks.vectors, whole.vectors, atol=1e-2)
    assert blocks.options == {"prompt": "the ", "truncate_dim": 4}
    loaded = VectorIndex.load(tmp_path / "blocks")
    best = predictor.search("the wanted", loaded, top_k=1)[0]
    assert (best.index, best.text, round(best.score, 2)) == (3, "wanted", 1.0)
    with pytest.raises(ValueError, match="vectors of 4 numbers, and this model makes"):
        predictor.search("un", VectorIndex(np.array(loaded.vectors)))


def test_the_index_of_another_model_is_refused(task, tokenizer, tmp_path: Path) -> None:
    """A model is known by the vector that it makes of the first text."""
    made = Predictor(task("vectors"), tokenizer)
    others = [Predictor(task(kind), tokenizer) for kind in ("tags", "pairs")]
    for precision in PRECISIONS:
        folder = tmp_path / precision
        index = made.index_documents(DOCUMENTS, folder, model="mine", precision=precision)
        for other in others:
            with pytest.raises(ValueError, match=r"vectors of 'mine' of another model.*cosine"):
                other.search("un", index)
        assert len(made.search("un", index)) == 7
    unknown = VectorIndex(np.array(index.vectors), DOCUMENTS, size=index.size)
    assert len(others[0].search("un", unknown)) == 7  # it does not state how it was made


def test_a_distance_is_not_searched(task, tokenizer, tmp_path: Path) -> None:
    encoder = task("vectors").encoder
    model = SentenceEncoder(encoder, similarity="manhattan", tokenizer=tokenizer)
    with pytest.raises(ValueError, match="this model by 'manhattan'"):
        model.search("un", DOCUMENTS)
    index = model.index_documents(DOCUMENTS, tmp_path / "index", similarity="cosine")
    assert model.search("un", index, top_k=1)[0].index == 1


def test_messages_of_search(task, tokenizer, tmp_path: Path) -> None:
    predictor = Predictor(task("vectors"), tokenizer)
    with pytest.raises(TypeError, match=r"load\(folder\) opens one"):
        predictor.search("a", "folder")
    with pytest.raises(ValueError, match="`top_k` must be at least 1"):
        predictor.search("a", ["b"], top_k=0)
    with pytest.raises(TypeError, match="`documents` must be a list"):
        predictor.index_documents("a", tmp_path / "index")
    with pytest.raises(ValueError, match="at least one vector"):
        predictor.index_documents([], tmp_path / "index")
    with pytest.raises(ValueError, match="must have one size"):
        predictor.search("a", np.zeros((3, 3), np.float32))
