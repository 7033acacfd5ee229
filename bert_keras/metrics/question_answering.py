"""Exact match and F1 of answers, as SQuAD 1.1, SQuAD 2.0 and CMRC 2018 define them."""

# A caller without a type checker may pass anything: arguments are checked when it runs.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import math
import re
import string
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from numbers import Real
from typing import Any


def answers_by_id(questions: Iterable[tuple[str, Sequence[str]]]) -> dict[str, tuple[str, ...]]:
    """Return the correct answers of each question, by its id.

    Args:
        questions: (id, correct answers). A question that the text does not answer has none.

    Raises:
        ValueError: if there are no questions, an id occurs twice, or answers are not strings.
    """
    answers: dict[str, tuple[str, ...]] = {}
    for question, texts in questions:
        if question in answers:
            raise ValueError(
                f"`questions`: two questions have the id {question!r}. "
                "Give each question a unique id."
            )
        # A str is itself a sequence of strings, its characters.
        all_texts = () if isinstance(texts, str) else tuple(texts)
        if isinstance(texts, str) or not all(isinstance(text, str) for text in all_texts):
            raise ValueError(
                f"`questions`: the answers of {question!r} must be a list of texts. "
                f"Received: {texts!r:.200}"
            )
        answers[question] = all_texts
    if not answers:
        raise ValueError("`questions` must hold at least one question. Received: none")
    return answers


def require_texts(answers: Mapping[str, Any], predictions: Mapping[str, str]) -> None:
    """Check that predictions belong to the questions and are strings.

    Args:
        answers: question id -> correct answers.
        predictions: question id -> predicted text; some may be missing.

    Raises:
        ValueError: if an id is not among the questions, or a prediction is not a string.
    """
    require_known("predictions", predictions, answers)
    for question, text in predictions.items():
        if not isinstance(text, str):
            raise ValueError(
                f"`predictions`: question {question!r} must have a text, '' for no answer. "
                f"Received: {text!r:.200}"
            )


def require_known(name: str, values: Mapping[str, Any], answers: Mapping[str, Any]) -> None:
    """Check that all keys of `values` are ids of questions.

    Args:
        name: name of `values`, for the message.
        values: question id -> any value.
        answers: question id -> correct answers.

    Raises:
        ValueError: if an id is not among the questions.
    """
    unknown = [question for question in values if question not in answers]
    if unknown:
        raise ValueError(
            f"`{name}`: {len(unknown)} of {len(values)} ids are not among the {len(answers)} "
            f"questions, the first is {unknown[0]!r}. Leave out what is not to be scored."
        )


def missing(values: Mapping[str, Any], answers: Mapping[str, Any]) -> list[str]:
    """Return the ids of the questions that `values` lacks, in the order of the questions."""
    return [question for question in answers if question not in values]


def describe_missing(ids: Sequence[str], answers: Mapping[str, Any]) -> str:
    """Return the part of a message that states how many questions have no prediction."""
    return f"{len(ids)} of {len(answers)} questions have no prediction, the first is {ids[0]!r}"


# === SQuAD ===
# Rajpurkar et al., 2016 (arXiv:1606.05250) and 2018 (arXiv:1806.03822). The scores equal those of
# the official programs, which are published with the data.


VERSIONS = ("1.1", "2.0")

# Only ASCII punctuation is removed, as in the official programs; curly quotes and dashes stay.
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")


def normalized_answer(text: str) -> str:
    """Return an answer in lower case, without ASCII punctuation, articles and repeated spaces.

    Punctuation is removed before articles and leaves no space, so that "a.b" becomes "ab".
    """
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def squad_scores(
    questions: Iterable[tuple[str, Sequence[str]]],
    predictions: Mapping[str, str],
    no_answer_scores: Mapping[str, float] | None = None,
    *,
    threshold: float = 1.0,
    version: str | None = None,
) -> dict[str, float]:
    """Compute exact match and token F1 of SQuAD, in percent.

    Each question counts with its best score over its correct answers. The versions differ for an
    answer that is empty after normalisation. In 1.1 its F1 is 0. In 2.0 it means "no answer", which
    an empty prediction matches.

    Args:
        questions: (id, correct answers). In 2.0, a question without answers is unanswerable.
        predictions: question id -> predicted text; "" is no answer.
        no_answer_scores: question id -> evidence for "no answer", for every question: a
            probability, or the score of no answer minus that of the predicted text. Then
            `predictions` should have the best text of each question, even an unlikely one.
        threshold: a question with a higher score counts as predicted to have no answer. The
            default is the official one, for probabilities. Differences of scores need another.
        version: "1.1" or "2.0". By default it is "2.0" if a question has no answer or
            `no_answer_scores` are passed.

    Returns:
        exact, f1, total: scores over all questions, and their number.
        HasAns_exact, HasAns_f1, HasAns_total, and the same with NoAns: in 2.0, scores over the
            questions with and without answers, if there are any.
        best_exact, best_exact_thresh, best_f1, best_f1_thresh: with `no_answer_scores`, the best
            scores over all thresholds. As in the official program, questions with equal scores are
            taken one by one in the order of `no_answer_scores`, although no threshold separates
            them.

    Raises:
        ValueError: if ids are unknown or occur twice, values have the wrong type, or arguments
            contradict each other; in 2.0 also if a question has no prediction.

    Warns:
        UserWarning: in 1.1, for questions without a prediction. They score 0.
    """
    answers = answers_by_id(questions)
    require_texts(answers, predictions)
    has_none = [question for question, texts in answers.items() if not texts]
    if version is None:
        version = "2.0" if has_none or no_answer_scores is not None else "1.1"
    if version not in VERSIONS:
        raise ValueError(
            f"`version` must be one of {', '.join(VERSIONS)}. Received: version={version!r}"
        )
    unanswered = missing(predictions, answers)
    if version == "1.1":
        if no_answer_scores is not None:
            raise ValueError(
                '`no_answer_scores` are for SQuAD 2.0. Leave them out, or pass version="2.0".'
            )
        if has_none:
            raise ValueError(
                f"SQuAD 1.1: question {has_none[0]!r} has no answer. Add its answers, or pass "
                'version="2.0".'
            )
        if unanswered:
            text = describe_missing(unanswered, answers)
            warnings.warn(f"{text}; they score 0", UserWarning, stacklevel=2)
        return _summary(*_raw_scores(answers, predictions, version))
    if unanswered:
        text = describe_missing(unanswered, answers)
        raise ValueError(f"SQuAD 2.0: {text}. Predict '' for a question without an answer.")
    return _scores_2(answers, predictions, no_answer_scores, threshold)


def _scores_2(
    answers: Mapping[str, Sequence[str]],
    predictions: Mapping[str, str],
    no_answer_scores: Mapping[str, float] | None,
    threshold: float,
) -> dict[str, float]:
    """Compute the scores of SQuAD 2.0; `squad_scores` describes arguments and result."""
    exact, f1 = raw = _raw_scores(answers, predictions, "2.0")
    if no_answer_scores is not None:
        _require_scores(no_answer_scores, answers)
        exact, f1 = dict(exact), dict(f1)
        for question, texts in answers.items():
            if no_answer_scores[question] > threshold:
                exact[question] = f1[question] = float(not texts)
    scores = _summary(exact, f1)
    for name, kind in (("HasAns", True), ("NoAns", False)):
        ids = [question for question, texts in answers.items() if bool(texts) is kind]
        if ids:
            part = _summary({id_: exact[id_] for id_ in ids}, {id_: f1[id_] for id_ in ids})
            scores |= {f"{name}_{key}": value for key, value in part.items()}
    if no_answer_scores is not None:
        for name, values in zip(("exact", "f1"), raw, strict=True):
            best = _best_threshold(answers, predictions, values, no_answer_scores)
            scores[f"best_{name}"], scores[f"best_{name}_thresh"] = best
    return scores


def _require_scores(no_answer_scores: Mapping[str, float], answers: Mapping[str, object]) -> None:
    """Raise `ValueError` unless every question has a no-answer score that is a number."""
    require_known("no_answer_scores", no_answer_scores, answers)
    if lacking := missing(no_answer_scores, answers):
        raise ValueError(
            f"`no_answer_scores`: {len(lacking)} of {len(answers)} questions have none, "
            f"the first is {lacking[0]!r}. Give a score to every question."
        )
    for question, score in no_answer_scores.items():
        if not isinstance(score, Real) or math.isnan(score):
            raise ValueError(
                f"`no_answer_scores`: question {question!r} must have a number. "
                f"Received: {score!r:.100}"
            )


def _raw_scores(
    answers: Mapping[str, Sequence[str]], predictions: Mapping[str, str], version: str
) -> tuple[dict[str, float], dict[str, float]]:
    """Return exact match and F1 of each question, from 0 to 1, without a no-answer threshold."""
    exact: dict[str, float] = {}
    f1: dict[str, float] = {}
    for question, texts in answers.items():
        if question not in predictions:
            exact[question] = f1[question] = 0.0
            continue
        prediction = normalized_answer(predictions[question])
        golds = [normalized_answer(text) for text in texts]
        if version == "2.0":
            golds = [gold for gold in golds if gold] or [""]
        exact[question] = float(prediction in golds)
        f1[question] = max(_token_f1(gold.split(), prediction.split(), version) for gold in golds)
    return exact, f1


def _token_f1(gold: list[str], predicted: list[str], version: str) -> float:
    """Return the F1, from 0 to 1, of the tokens of a correct and a predicted answer."""
    if version == "2.0" and not (gold and predicted):
        return float(gold == predicted)
    common = (Counter(gold) & Counter(predicted)).total()
    if not common:
        return 0.0
    precision, recall = common / len(predicted), common / len(gold)
    return 2 * precision * recall / (precision + recall)


def _summary(exact: Mapping[str, float], f1: Mapping[str, float]) -> dict[str, float]:
    """Return the means in percent of scores by question id, and the number of questions."""
    total = len(exact)
    return {
        "exact": 100.0 * sum(exact.values()) / total,
        "f1": 100.0 * sum(f1.values()) / total,
        "total": total,
    }


def _best_threshold(
    answers: Mapping[str, Sequence[str]],
    predictions: Mapping[str, str],
    scores: Mapping[str, float],
    no_answer_scores: Mapping[str, float],
) -> tuple[float, float]:
    """Return the best mean score in percent over all thresholds, and that threshold.

    As `find_best_thresh` in the official evaluation script of SQuAD 2.0.

    Args:
        answers: question id -> correct answers.
        predictions: question id -> predicted text.
        scores: question id -> exact match or F1 of the text, from 0 to 1.
        no_answer_scores: question id -> score of "no answer". The higher, the less likely is an
            answer in the context.
    """
    # Start with a threshold at which all questions have no answer. Then raise it, so that one text
    # after another counts, in the order of the scores of "no answer".
    current: float = sum(not texts for texts in answers.values())
    best, threshold = current, 0.0
    for question in sorted(no_answer_scores, key=lambda id_: no_answer_scores[id_]):
        if answers[question]:
            current += scores[question]
        elif predictions[question]:
            current -= 1
        if current > best:
            best, threshold = current, float(no_answer_scores[question])
    return 100.0 * best / len(scores), threshold


# === CMRC 2018 ===
# Cui et al., 2019 (arXiv:1810.07366), and the official program, which is published with the data.


# Characters that the official program removes. It keeps "…", "‘" and the ASCII ",.".
_MARKS = str.maketrans("", "", "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
_CHINESE_OR_OTHER = re.compile("[\u4e00-\u9fa5]|[^\u4e00-\u9fa5]+")
# Words between Chinese characters. Numbers such as 10,000 and 3.5 and names such as u.s stay whole.
_CONTRACTION = r"n't(?!\S)|'(?:s|m|d|ll|re|ve)?(?!\S)"
_MARK = r"[;@#$%&?!()\[\]{}<>\"«»‘„–—]|,(?!\d)|\.{2,}|\.(?=[\])}>\"'»]*\s*$)"
_WORD = re.compile(rf"{_MARK}|{_CONTRACTION}|(?:(?!{_MARK}|{_CONTRACTION})\S)+")


def cmrc_scores(
    questions: Iterable[tuple[str, Sequence[str]]], predictions: Mapping[str, str]
) -> dict[str, float]:
    """Compute exact match and F1 of CMRC 2018, in percent.

    Each question counts with its best score over its correct answers. F1 is that of the longest
    common run of segments. A segment is a Chinese character, or a word between such characters.
    The official program splits these words with NLTK. Here the rules for numbers, punctuation and
    contractions such as "it's" are the same. But a full stop within the text is not split off, and
    "cannot" and words after an opening apostrophe are not split.

    Args:
        questions: (id, correct answers).
        predictions: question id -> predicted text.

    Returns:
        exact, f1, average: `average` is the mean of both, by which CMRC ranks.
        total, skipped: number of questions, and number of those without a prediction.

    Raises:
        ValueError: if ids are unknown or occur twice, a question has no answer, or values are not
            strings.

    Warns:
        UserWarning: for questions without a prediction. They score 0.
    """
    answers = answers_by_id(questions)
    require_texts(answers, predictions)
    for question, texts in answers.items():
        if not texts:
            raise ValueError(
                f"`questions`: question {question!r} has no answer. CMRC 2018 has no such "
                "questions: add its answers or leave it out."
            )
    skipped = missing(predictions, answers)
    if skipped:
        text = describe_missing(skipped, answers)
        warnings.warn(f"{text}; they score 0", UserWarning, stacklevel=2)
    exact = f1 = 0.0
    for question, texts in answers.items():
        if question in predictions:
            prediction = predictions[question]
            exact += any(_bare(text) == _bare(prediction) for text in texts)
            segments = _segments(prediction)
            f1 += max(_overlap_f1(_segments(text), segments) for text in texts)
    exact, f1 = 100.0 * exact / len(answers), 100.0 * f1 / len(answers)
    return {
        "exact": exact,
        "f1": f1,
        "average": (exact + f1) / 2,
        "total": len(answers),
        "skipped": len(skipped),
    }


def _bare(text: str) -> str:
    """Return a text in lower case, without the characters that the official program removes."""
    return text.lower().strip().translate(_MARKS)


def _segments(text: str) -> list[str]:
    """Split a text into Chinese characters and the words between them."""
    parts = _CHINESE_OR_OTHER.findall(_bare(text))
    return [segment for part in parts for segment in _WORD.findall(part)]


def _overlap_f1(answer: list[str], prediction: list[str]) -> float:
    """Return the F1 of CMRC 2018, from 0 to 1: of the longest run of segments that both have.

    Args:
        answer: Chinese characters and words of a right answer; see `_segments`.
        prediction: those of the prediction. Nothing in common, as of two empty texts, is 0.
    """
    match = SequenceMatcher(None, answer, prediction, autojunk=False)
    common = match.find_longest_match().size
    if not common:
        return 0.0
    precision, recall = common / len(prediction), common / len(answer)
    return 2 * precision * recall / (precision + recall)
