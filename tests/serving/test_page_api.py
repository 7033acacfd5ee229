"""The interface of the page: descriptions, answers of every task, tokens, attention, search."""

from __future__ import annotations

import base64
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from tests.serving.running import (
    CONFIG,
    CONTEXTS,
    LABELS,
    LENGTH,
    OPTIONS,
    OTHERS,
    TASKS,
    TEXTS,
    VOCABULARY,
    Running,
    predictor,
)

LONG = "a " * 100


def ask(served: Running, name: str, body: Any, method: str = "answer") -> Any:
    return served.ask(f"/api/models/{name}/{method}", body)


def test_every_model_is_described(served: Running) -> None:
    models = {model["name"]: model for model in served.get("/api/models")["models"]}
    assert list(models) == list(TASKS)
    for name, model in models.items():
        task = predictor(name).task
        assert model["task"] == task.task_name
        assert model["kind"] == model["format"] == "checkpoint"
        assert model["can"]["answer"]
        assert model["can"]["attention"]
        assert model["can"]["search"] == (name in ("vectors", "encoder"))
        assert model["can"]["similarity"] == (name == "vectors")
        assert model["max_length"] == (80 if name == "answers" else LENGTH)
        assert (model["mask_token"] is None) == (name not in ("masks", "pretrained"))
    assert models["labels"]["labels"] == LABELS
    assert models["labels"]["takes_pairs"]
    assert models["pair_labels"]["inputs"] == ["text", "pair"]
    assert models["choices"]["inputs"] == ["prompt", "options"]


def inputs_for(name: str) -> dict[str, Any]:
    """Return inputs of one example for a model in `TASKS`."""
    known = {"text": TEXTS[0], "pair": OTHERS[0], "question": OTHERS[2], "context": CONTEXTS[0]}
    known |= {"prompt": TEXTS[0], "options": OPTIONS[0]}
    if name in ("masks", "pretrained"):
        known["text"] = "a [MASK] film"
    names = predictor(name).task.answer_inputs(is_paired=name == "pair_labels")
    return {key: known[key] for key in names}


@pytest.mark.parametrize("name", TASKS)
def test_every_task_is_answered(served: Running, name: str) -> None:
    inputs = inputs_for(name)
    reply = ask(served, name, {"inputs": inputs})
    assert reply["version"] == "1"
    assert reply["truncated"] is False
    assert reply["milliseconds"] > 0
    found, model = reply["answer"], predictor(name)
    columns = [[value] for value in inputs.values()]
    if name in ("labels", "multi", "pair_labels"):
        scores = model.predict_scores(*columns)[0]
        assert [label["label"] for label in found["labels"]] == [
            LABELS[index] for index in np.argsort(-scores)
        ]
        chosen = [LABELS[i] for i in np.argsort(-scores) if scores[i] >= 0.5]
        assert found["chosen"] == (chosen if name == "multi" else [found["labels"][0]["label"]])
        assert found["labels"][0]["score"] == pytest.approx(scores.max(), abs=1e-5)
    elif name == "numbers":
        assert found["scores"] == pytest.approx(model.predict_scores(*columns)[0], abs=1e-5)
    elif name == "ranker":
        assert found["scores"] == pytest.approx(model.predict_pair_scores(*columns), abs=1e-5)
    elif name in ("tags", "crf"):
        expected = [asdict(entity) for entity in model.predict_entities(*columns)[0]]
        assert [{**entity, "score": 0} for entity in found["entities"]] == [
            {**entity, "score": 0} for entity in expected
        ]
    elif name == "answers":
        best = model.predict_answers(*columns)[0]
        assert len(found["answers"]) > 1
        assert found["answers"][0]["text"] == best.text
        assert found["answers"][0]["score"] == pytest.approx(best.score, abs=1e-5)
    elif name == "choices":
        best = model.predict_choices(*columns)[0]
        assert (found["index"], found["text"]) == (best.index, best.text)
        assert sum(found["scores"]) == pytest.approx(1.0, abs=1e-5)
    elif name in ("masks", "pretrained"):
        ((fills,),) = model.fill_mask(*columns)
        assert [fill["token"] for fill in found["masks"][0]] == [fill.token for fill in fills]
    else:
        np.testing.assert_allclose(found["vector"], model.encode(*columns)[0], atol=1e-5)


def test_similarity_of_two_texts(served: Running) -> None:
    found = ask(served, "vectors", {"inputs": {"text": TEXTS[0], "pair": OTHERS[0]}})["answer"]
    expected = predictor("vectors").similarity(TEXTS[0], OTHERS[0])
    assert found == {"similarity": pytest.approx(float(expected), abs=1e-5)}


def test_unknown_words_are_counted(served: Running) -> None:
    reply = ask(served, "labels", {"inputs": {"text": "a \u2603 film", "pair": "\u2603 \u2603"}})
    assert reply["words"] == {"tokens": 5, "unknown": 3}


def test_fewer_answers_and_truncation(served: Running) -> None:
    two = ask(served, "labels", {"inputs": {"text": LONG}, "top_k": 2})
    assert len(two["answer"]["labels"]) == 2
    assert two["truncated"]
    one = ask(served, "answers", {"inputs": inputs_for("answers"), "top_k": 1})
    assert len(one["answer"]["answers"]) == 1
    empty = {"question": "a", "context": ""}
    none = ask(served, "answers", {"inputs": empty})["answer"]["answers"]
    assert [(answer["text"], answer["null_score"]) for answer in none] == [("", None)]


def test_tokens_and_attention_fit_together(served: Running) -> None:
    body = {"text": TEXTS[0], "pair": OTHERS[0]}
    tokens = ask(served, "labels", body, "tokens")["tokens"]
    assert [VOCABULARY[token["id"]] for token in tokens] == [token["token"] for token in tokens]
    found = ask(served, "labels", body, "attention")
    assert found["tokens"] == [token["token"] for token in tokens]
    shares = np.frombuffer(base64.b64decode(found["attention"]), np.uint8)
    sizes = (CONFIG.num_layers, CONFIG.num_heads, len(tokens), len(tokens))
    assert (found["layers"], found["heads"]) == sizes[:2]
    sums = shares.reshape(sizes).astype(int).sum(axis=-1)
    assert np.abs(sums - 255).max() <= len(tokens)  # of rounding


def test_search_ranks_lines_by_similarity(served: Running) -> None:
    found = ask(served, "vectors", {"query": TEXTS[0], "lines": OTHERS}, "search")
    scores = predictor("vectors").similarity([TEXTS[0]] * 3, OTHERS)
    assert [item["index"] for item in found["results"]] == np.argsort(-scores).tolist()
    expected = np.sort(scores)[::-1]
    np.testing.assert_allclose([i["score"] for i in found["results"]], expected, atol=1e-5)


WRONG: list[tuple[str, str, Any, int, str]] = [
    ("labels", "answer", {}, 400, "`inputs` must be an object"),
    ("labels", "answer", {"inputs": {"text": 1}}, 400, "`inputs.text` must be a text"),
    ("labels", "answer", {"inputs": {"question": "a"}}, 400, "`inputs` must have text"),
    ("labels", "answer", {"inputs": {"text": "a"}, "top_k": 0}, 400, "`top_k`"),
    ("choices", "answer", {"inputs": {"prompt": "a", "options": ["b"]}}, 400, "two texts"),
    ("choices", "answer", {"inputs": {"prompt": "a", "options": "bc"}}, 400, "two texts"),
    ("labels", "tokens", {"text": None}, 400, "`text` must be a text"),
    ("labels", "attention", {"text": "a", "pair": 3}, 400, "`pair` must be a text"),
    ("labels", "search", {"query": "a", "lines": ["b"]}, 404, "gives no vectors"),
    ("vectors", "search", {"query": 1, "lines": ["b"]}, 400, "`query` must be a text"),
    ("vectors", "search", {"query": "a", "lines": ["b"] * 1001}, 413, "1,000 lines"),
    ("nobody", "answer", {"inputs": {"text": "a"}}, 404, "no model"),
]


@pytest.mark.parametrize(("name", "method", "body", "status", "words"), WRONG)
def test_a_wrong_body_is_told(
    served: Running, name: str, method: str, body: Any, status: int, words: str
) -> None:
    response = served.post(f"/api/models/{name}/{method}", body)
    assert response.status_code == status
    assert words in response.json()["error"]
