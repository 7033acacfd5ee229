"""Scores of answers in Chinese texts, as the official evaluation of CMRC 2018 defines them.

Cui et al., 2019 (arXiv:1810.07366), and the program that is published with the data.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher

from bert_keras.metrics.answers import answers_by_id, describe_missing, missing, require_texts

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
