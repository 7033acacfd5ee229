"""Exact match and F1 of answers, as SQuAD 1.1, SQuAD 2.0 and CMRC 2018 define them."""

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
    """The right answers of each question.

    Args:
        questions: (id, answers) of each; no answers where a text does not answer its question.

    Raises:
        ValueError: there are no questions, an id comes twice, or answers are not texts.
    """
    answers: dict[str, tuple[str, ...]] = {}
    for question, texts in questions:
        if question in answers:
            raise ValueError(f"two questions have the id {question!r}: ids must be unique")
        # One text is a sequence of texts to Python, each a character long.
        every = () if isinstance(texts, str) else tuple(texts)
        if isinstance(texts, str) or not all(isinstance(text, str) for text in every):
            raise ValueError(
                f"question {question!r}: answers must be a sequence of texts, not {texts!r}"
            )
        answers[question] = every
    if not answers:
        raise ValueError("there are no questions to score")
    return answers


def require_texts(answers: Mapping[str, Any], predictions: Mapping[str, str]) -> None:
    """Refuses predictions for other questions, and predictions that are no texts.

    Args:
        answers: of each question, by id.
        predictions: one text per question, by id; some may be missing.

    Raises:
        ValueError: an id is not among the questions, or a prediction is not a text.
    """
    require_known("predictions", predictions, answers)
    for question, text in predictions.items():
        if not isinstance(text, str):
            raise ValueError(
                f"predictions: question {question!r} has {text!r}; give a text, '' for no answer"
            )


def require_known(what: str, values: Mapping[str, Any], answers: Mapping[str, Any]) -> None:
    """Refuses `values` with ids that are not among the questions.

    Args:
        what: the name of `values`, for the message.
        values: anything by id.
        answers: of each question, by id.

    Raises:
        ValueError: an id is not among the questions.
    """
    unknown = [question for question in values if question not in answers]
    if unknown:
        raise ValueError(
            f"{what}: {len(unknown)} of {len(values)} ids are not among the {len(answers)} "
            f"questions, the first is {unknown[0]!r}; leave out what is not to be scored"
        )


def missing(values: Mapping[str, Any], answers: Mapping[str, Any]) -> list[str]:
    """The ids of the questions that `values` says nothing about, in the order of the questions."""
    return [question for question in answers if question not in values]


def describe_missing(ids: Sequence[str], answers: Mapping[str, Any]) -> str:
    """Says how many questions have no prediction, for a warning or an error."""
    return f"{len(ids)} of {len(answers)} questions have no prediction, the first is {ids[0]!r}"


# === SQuAD ===
# Rajpurkar et al., 2016 (arXiv:1606.05250) and 2018 (arXiv:1806.03822), and the two programs that
# are published with the data.


VERSIONS = ("1.1", "2.0")

# ASCII only: curly quotes and dashes stay, as in the official programs.
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")


def normalized_answer(text: str) -> str:
    """An answer as it is compared: lower case, no ASCII punctuation, no articles, single blanks.

    Punctuation vanishes before articles do and leaves no blank, so that "a.b" is the word "ab".
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
    """Exact match and token F1 in percent, each the best over the right answers of a question.

    The versions differ where nothing is left of an answer: by 1.1 it shares no token, so its F1
    is 0; by 2.0 it is the answer "none", which the empty prediction matches.

    Args:
        questions: (id, answers) of each; by 2.0 no answers mean that the text has none.
        predictions: a text per question, by id. "" is no answer.
        no_answer_scores: how much speaks for "no answer", of every question, by id: a probability,
            or the score of no answer less that of the predicted text. Where they are given,
            `predictions` best holds the best text of each question, however doubtful.
        threshold: questions of a higher score count as predicted to have no answer. The default is
            the official one, for probabilities; differences of scores want another.
        version: "1.1" or "2.0"; by default "2.0" if a question has no answer or if there are
            `no_answer_scores`.

    Returns:
        exact, f1: over all questions, and `total`, their number.
        HasAns_exact, HasAns_f1, HasAns_total, and the same with NoAns: by 2.0, over the questions
            with and without answers, if there are such.
        best_exact, best_exact_thresh, best_f1, best_f1_thresh: with `no_answer_scores`, the best
            that some threshold gives. As officially, questions of one score are taken one by one,
            in the order of `no_answer_scores`, though no threshold tells them apart.

    Raises:
        ValueError: ids that are unknown, come twice or are missing (by 2.0, where the official
            program fails too); values of the wrong kind; arguments that contradict each other.

    Warns:
        UserWarning: by 1.1, questions without a prediction; they score 0, as officially.
    """
    answers = answers_by_id(questions)
    require_texts(answers, predictions)
    has_none = [question for question, texts in answers.items() if not texts]
    if version is None:
        version = "2.0" if has_none or no_answer_scores is not None else "1.1"
    if version not in VERSIONS:
        raise ValueError(f"version must be one of {', '.join(VERSIONS)}, not {version!r}")
    unanswered = missing(predictions, answers)
    if version == "1.1":
        if no_answer_scores is not None:
            raise ValueError("SQuAD 1.1 knows no no_answer_scores: leave them out, or score by 2.0")
        if has_none:
            raise ValueError(f"SQuAD 1.1: question {has_none[0]!r} has no answer; score by 2.0")
        if unanswered:
            text = describe_missing(unanswered, answers)
            warnings.warn(f"{text}; they score 0", UserWarning, stacklevel=2)
        return _summary(*_raw_scores(answers, predictions, version))
    if unanswered:
        text = describe_missing(unanswered, answers)
        raise ValueError(f"SQuAD 2.0: {text}; give '' where no answer is predicted")
    return _scores_2(answers, predictions, no_answer_scores, threshold)


def _scores_2(
    answers: Mapping[str, Sequence[str]],
    predictions: Mapping[str, str],
    no_answer_scores: Mapping[str, float] | None,
    threshold: float,
) -> dict[str, float]:
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
            part = _summary({each: exact[each] for each in ids}, {each: f1[each] for each in ids})
            scores |= {f"{name}_{key}": value for key, value in part.items()}
    if no_answer_scores is not None:
        for name, values in zip(("exact", "f1"), raw, strict=True):
            best = _best_threshold(answers, predictions, values, no_answer_scores)
            scores[f"best_{name}"], scores[f"best_{name}_thresh"] = best
    return scores


def _require_scores(no_answer_scores: Mapping[str, float], answers: Mapping[str, object]) -> None:
    require_known("no_answer_scores", no_answer_scores, answers)
    if lacking := missing(no_answer_scores, answers):
        raise ValueError(
            f"no_answer_scores: {len(lacking)} of {len(answers)} questions have none, "
            f"the first is {lacking[0]!r}"
        )
    for question, score in no_answer_scores.items():
        if not isinstance(score, Real) or math.isnan(score):
            raise ValueError(f"no_answer_scores: question {question!r} has {score!r}, no number")


def _raw_scores(
    answers: Mapping[str, Sequence[str]], predictions: Mapping[str, str], version: str
) -> tuple[dict[str, float], dict[str, float]]:
    """Exact match and F1 of each question, 0..1, before any threshold."""
    exact, f1 = {}, {}
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
    if version == "2.0" and not (gold and predicted):
        return float(gold == predicted)
    common = (Counter(gold) & Counter(predicted)).total()
    if not common:
        return 0.0
    precision, recall = common / len(predicted), common / len(gold)
    return 2 * precision * recall / (precision + recall)


def _summary(exact: Mapping[str, float], f1: Mapping[str, float]) -> dict[str, float]:
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
    """The best mean score in percent, and the no-answer score up to which texts are believed."""
    # All questions unanswered at first; then the surest text is believed, and the next, and so on.
    current: float = sum(not texts for texts in answers.values())
    best, threshold = current, 0.0
    for question in sorted(no_answer_scores, key=lambda each: no_answer_scores[each]):
        if answers[question]:
            current += scores[question]
        elif predictions[question]:
            current -= 1
        if current > best:
            best, threshold = current, float(no_answer_scores[question])
    return 100.0 * best / len(scores), threshold


# === CMRC 2018 ===
# Cui et al., 2019 (arXiv:1810.07366), and the program that is published with the data.


# As officially: "，。" go, but "…", "‘" and the ASCII ",." stay.
_MARKS = str.maketrans("", "", "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
_CHINESE_OR_OTHER = re.compile("[\u4e00-\u9fa5]|[^\u4e00-\u9fa5]+")
# The words of what is not Chinese: numbers such as 10,000 and 3.5 and names such as u.s stay whole.
_CONTRACTION = r"n't(?!\S)|'(?:s|m|d|ll|re|ve)?(?!\S)"
_MARK = r"[;@#$%&?!()\[\]{}<>\"«»‘„–—]|,(?!\d)|\.{2,}|\.(?=[\])}>\"'»]*\s*$)"
_WORD = re.compile(rf"{_MARK}|{_CONTRACTION}|(?:(?!{_MARK}|{_CONTRACTION})\S)+")


def cmrc_scores(
    questions: Iterable[tuple[str, Sequence[str]]], predictions: Mapping[str, str]
) -> dict[str, float]:
    """Exact match and F1 in percent, each the best over the right answers of a question.

    F1 is that of the longest run of segments that answer and prediction share. Chinese characters
    are segments, and so are the words between them. The official program finds these words with
    NLTK. Here they are found by the same rules for numbers, punctuation and contractions such as
    "it's", but a sentence within them is not parted from its full stop, and "cannot" and words
    after an opening apostrophe stay whole.

    Args:
        questions: (id, answers) of each.
        predictions: a text per question, by id.

    Returns:
        exact, f1, average: the latter is the mean of both, by which CMRC ranks.
        total, skipped: how many questions there are, and how many of them have no prediction.

    Raises:
        ValueError: ids that are unknown or come twice, questions without answers, values that are
            no texts.

    Warns:
        UserWarning: questions without a prediction; they score 0, as officially.
    """
    answers = answers_by_id(questions)
    require_texts(answers, predictions)
    for question, texts in answers.items():
        if not texts:
            raise ValueError(f"question {question!r} has no answer; CMRC 2018 knows no such")
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
    return text.lower().strip().translate(_MARKS)


def _segments(text: str) -> list[str]:
    """Chinese characters, and the words between them."""
    parts = _CHINESE_OR_OTHER.findall(_bare(text))
    return [segment for part in parts for segment in _WORD.findall(part)]


def _overlap_f1(answer: list[str], prediction: list[str]) -> float:
    match = SequenceMatcher(None, answer, prediction, autojunk=False)
    common = match.find_longest_match().size
    if not common:
        return 0.0
    precision, recall = common / len(prediction), common / len(answer)
    return 2 * precision * recall / (precision + recall)
