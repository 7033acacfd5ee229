"""Ranks of texts for a query, for `/rerank`, `/v1/rerank` and the search of the page."""

from __future__ import annotations

import numpy as np
from starlette.requests import Request

from bert_keras.inference.sentence_similarity import SIMILARITIES
from bert_keras.serving.http_requests import (
    Answered,
    Service,
    check_amount,
    required,
    run,
    run_vectors,
    truncated,
    version_of,
)
from bert_keras.serving.loaded_model import VECTOR_TASKS, LoadedModel
from bert_keras.serving.versions import ServedModel

_PAIR = ("text", "pair")


def can_score_pairs(model: LoadedModel) -> bool:
    """Return whether a model was trained to score pairs of texts, as a re-ranker is."""
    tasks = ("text_regression", "text_ranking")
    return model.task in tasks and model.of_inputs(*_PAIR) is not None


def can_compare_vectors(model: LoadedModel) -> bool:
    """Return whether a model ranks texts by the similarity of their vectors."""
    return model.task in VECTOR_TASKS and model.has_vectors


def can_rank(model: LoadedModel) -> bool:
    """Return whether a model ranks texts for a query: by scores of pairs, or by similarity."""
    return (
        can_score_pairs(model)
        or can_compare_vectors(model)
        or model.similarity_signature is not None
    )


def ranking_model(service: Service) -> ServedModel | None:
    """Return the model of paths without a model's name; None if no model ranks texts.

    A model that was trained to score pairs comes first, then one that was trained for similarity,
    then any encoder.
    """
    return (
        service.first(can_score_pairs)
        or service.first(lambda model: model.similarity_signature is not None)
        or service.first(can_rank)
    )


async def truncated_rows(service: Service, model: LoadedModel, query: str, texts: list[str]) -> int:
    """Return the number of texts that the model does not read whole, or not with the whole query.

    Raises:
        RequestError: if the query and the texts have too many characters; see `_check_pairs`.
    """
    if can_compare_vectors(model):
        return len(texts) if await truncated(model, [query]) else await truncated(model, texts)
    _check_pairs(service, query, texts)
    return await truncated(model, [query] * len(texts), texts)


def _check_pairs(service: Service, query: str, texts: list[str]) -> None:
    """Check the number of characters that a model reads with the query once for each text.

    Raises:
        RequestError: if it is above the limit.
    """
    characters = len(query) * len(texts) + sum(map(len, texts))
    check_amount(len(texts), characters, service.limits)


async def ranking_scores(
    request: Request, service: Service, model: ServedModel, query: str, texts: list[str]
) -> tuple[np.ndarray, Answered]:
    """Return the score of each text for a query, and the outputs of the model.

    Args:
        request: the request.
        service: the server's models and limits.
        model: a model for which `can_rank` is True.
        query: the query.
        texts: texts to rank.

    Returns:
        float32 [texts], where a higher score is better. Vectors are compared by the measure of the
        model, such as the cosine; the query is encoded once.

    Raises:
        RequestError: if the query and the texts have too many characters; see also `run`.
    """
    if can_compare_vectors(model.newest.model):
        answered = await run_vectors(request, service, model, [query, *texts])
        vectors = np.asarray(answered.outputs["sentence_vector"], np.float32)
        measure = SIMILARITIES[answered.version.model.similarity]
        return measure(vectors[:1], vectors[1:]), answered
    _check_pairs(service, query, texts)
    answered = await run(
        request,
        service,
        lambda: version_of(model),
        lambda loaded: required(
            loaded.of_inputs(*_PAIR) if can_score_pairs(loaded) else loaded.similarity_signature
        ),
        {"text": [query] * len(texts), "pair": texts},
        len(texts),
    )
    outputs = answered.outputs
    scores = outputs["similarity"] if "similarity" in outputs else outputs["scores"][:, 0]
    return np.asarray(scores, np.float32), answered
