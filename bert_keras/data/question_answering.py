"""Question answering: reading SQuAD and CMRC 2018 files, and encoding answers.

Rajpurkar et al. 2016, arXiv:1606.05250; Rajpurkar et al. 2018, arXiv:1806.03822; Cui et al. 2019,
arXiv:1810.07366. Problems of single questions are counted in a report, and reading goes on. A file
that does not have this format is an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bert_keras import file_io
from bert_keras.data.documents import Source, numbered_lines, text_value
from bert_keras.data.examples import Answer, Question
from bert_keras.data.model_inputs import EncodedTexts
from bert_keras.data.sliding_windows import Pieces, Window, question_windows
from bert_keras.data.supervised import SupervisedExamples
from bert_keras.errors import DataError
from bert_keras.features import END, START
from bert_keras.tokenizers import Tokenizer

DUPLICATE_ID = "id of an earlier question: question left out"
EMPTY_CONTEXT = "empty context: question left out"
EMPTY_QUESTION = "empty question: kept"
ANSWERED_IMPOSSIBLE = "answers to an impossible question: ignored"
MOVED_ANSWER = "answer not at answer_start, but elsewhere in the context: moved"
LOST_ANSWER = "answer not in the context: used in the metrics, not in training"
NO_ANSWER = "no answer, and not marked as impossible: kept without an answer"

_EXAMPLES = 5  # number of questions that the report names for a kind of problem
# The keys of the original files of CMRC 2018, and the same keys in SQuAD.
_CMRC = {"context_text": "context", "query_id": "id", "query_text": "question"}


@dataclass(frozen=True)
class SquadReport:
    """Counts of a SQuAD file, and the problems of its questions.

    Attributes:
        articles: number of articles in the file.
        paragraphs: number of paragraphs in the file.
        questions: number of questions that were read, without those left out.
        impossible: number of these that are marked as impossible.
        answers: number of answers to these.
        problems: number of questions or answers with each kind of problem, by its description.
        examples: the first few of each kind: file, article, paragraph and id.
    """

    articles: int
    paragraphs: int
    questions: int
    impossible: int
    answers: int
    problems: Mapping[str, int]
    examples: Mapping[str, tuple[str, ...]]

    def __str__(self) -> str:
        lines = [
            f"{self.articles:,} articles, {self.paragraphs:,} paragraphs, {self.questions:,} "
            f"questions ({self.impossible:,} impossible), {self.answers:,} answers"
        ]
        for problem, count in self.problems.items():
            lines.append(f"{count:,} x {problem}")
            lines += [f"  {example}" for example in self.examples[problem]]
        return "\n".join(lines)


def read_squad(path: Source) -> tuple[tuple[Question, ...], SquadReport]:
    """Read the questions of a SQuAD file, and report the problems in it.

    If an answer is not at its `answer_start` (which counts code points), the nearest place of its
    text in the context is taken. If the context does not have the text, the answer is `lost`. Of
    questions with the same id only the first is kept. Answers may be missing, as in a file to
    predict, or be texts without a place, as in the original files of CMRC 2018.

    Args:
        path: a JSON file in UTF-8, gzipped or not.

    Returns:
        The questions in the order of the file, and the report.

    Raises:
        DataError: the file is not JSON, or not in SQuAD's format. The message has the indices of
            article and paragraph, from 0.
    """
    reader = _Reader(path)
    questions = tuple(reader.questions())
    report = SquadReport(
        reader.articles,
        reader.paragraphs,
        len(questions),
        sum(question.is_impossible for question in questions),
        sum(len(question.answers) for question in questions),
        {problem: count for problem, (count, _) in reader.problems.items()},
        {problem: tuple(some) for problem, (_, some) in reader.problems.items()},
    )
    return questions, report


class _Reader:
    """Reader of one SQuAD file, with the counts for its report."""

    def __init__(self, path: Source):
        self.path = path
        self.articles = self.paragraphs = 0
        self.problems: dict[str, tuple[int, list[str]]] = {}
        self.ids: set[str] = set()

    def questions(self) -> Iterator[Question]:
        """Yield the questions of all articles, and count articles, paragraphs and problems."""
        data = _parse(self.path)
        for a, article in enumerate(_list(data, "data", str(self.path))):
            self.articles += 1
            place = f"{self.path}: data[{a}]"
            is_paragraph = file_io.is_object(article) and "context_text" in article
            paragraphs = [article] if is_paragraph else _list(article, "paragraphs", place)
            for p, paragraph in enumerate(paragraphs):
                self.paragraphs += 1
                yield from self._paragraph(paragraph, f"{place}.paragraphs[{p}]")

    def _paragraph(self, paragraph: Any, place: str) -> Iterator[Question]:
        """Yield the questions of one paragraph. `place` is its name in messages."""
        qas = _list(paragraph, "qas", place)
        context = _text(paragraph, "context", place)
        for q, entry in enumerate(qas):
            inner = f"{place}.qas[{q}]"
            name, question = _text(entry, "id", inner), _text(entry, "question", inner)
            named = f"{place}, id {name!r}"
            impossible = entry.get("is_impossible", False)
            if not isinstance(impossible, bool):
                raise DataError(
                    f"{inner}: is_impossible must be true or false. Received: {impossible!r}"
                )
            if name in self.ids or not context.strip():
                self._count(DUPLICATE_ID if name in self.ids else EMPTY_CONTEXT, named)
                continue
            self.ids.add(name)
            answers, lost = self._answers(entry, context, inner, named, impossible)
            for problem, occurs in (
                (EMPTY_QUESTION, not question.strip()),
                (NO_ANSWER, not (answers or lost or impossible)),
            ):
                if occurs:
                    self._count(problem, named)
            yield Question(name, question, context, answers, impossible, place, lost)

    def _answers(
        self, entry: dict[str, Any], context: str, place: str, named: str, impossible: bool
    ) -> tuple[tuple[Answer, ...], tuple[str, ...]]:
        """Return the answers in the context, and the texts of those that are not in it.

        Args:
            entry: the question in the file.
            context: text of the paragraph.
            place: place of the question, for messages.
            named: paragraph and id of the question, for the report.
            impossible: whether the question is marked as impossible; its answers are then ignored.
        """
        entries = _list(entry, "answers", place) if entry.get("answers") is not None else []
        answers: list[Answer] = []
        lost: list[str] = []
        if impossible and entries:
            self._count(ANSWERED_IMPOSSIBLE, named)
        for i, item in enumerate([] if impossible else entries):
            item = {"text": item, "answer_start": None} if isinstance(item, str) else item
            text = _text(item, "text", f"{place}.answers[{i}]")
            start = item.get("answer_start")
            if start is not None and (isinstance(start, bool) or not isinstance(start, int)):
                raise DataError(
                    f"{place}.answers[{i}]: answer_start must be a whole number. "
                    f"Received: {start!r}"
                )
            at = _nearest(context, text, start or 0) if text.strip() else None
            if at is None:
                self._count(LOST_ANSWER, f"{named}: {text!r:.100}")
                lost += [text] if text.strip() else []
                continue
            if start is not None and at != start:
                self._count(MOVED_ANSWER, f"{named}: {text!r:.100} from {start} to {at}")
            answers.append(Answer(text, at))
        return tuple(answers), tuple(lost)

    def _count(self, problem: str, example: str) -> None:
        """Count a problem, and keep the name of its question if it is one of the first five."""
        count, examples = self.problems.get(problem, (0, []))
        if count < _EXAMPLES:
            examples.append(example)
        self.problems[problem] = count + 1, examples


def _parse(path: Source) -> Any:
    """Return the parsed JSON of a file in SQuAD's form, {"data": [...]}."""
    file = file_io.expanded(path)
    try:
        content = "".join(line for _, line in numbered_lines(file))
        data = json.loads(content, object_pairs_hook=_unique_keys(path))
    except json.JSONDecodeError as error:
        raise DataError(
            f"{path}:{error.lineno}: not JSON: {error.msg}, at character {error.colno} of the "
            "line. Correct the file, or pass one in SQuAD's format."
        ) from None
    except RecursionError:
        raise DataError(
            f"{path}: not SQuAD: the JSON is nested too deeply. Pass a file in SQuAD's format."
        ) from None
    # The original files of CMRC 2018 are the list itself.
    return {"data": data} if file_io.is_array(data) else data


def _unique_keys(path: Source) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    """Return an `object_pairs_hook` whose error shows the object that has a key twice."""
    read_pairs = file_io.unique_keys(f"{path}", DataError)

    def read(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Return the pairs of an object as a dict."""
        try:
            return read_pairs(pairs)
        except DataError as error:
            raise DataError(f"{error} Received: an object of {pairs!r:.300}") from None

    return read


def _value(holder: Any, key: str, place: str) -> Any:
    """Return the value of a key of SQuAD in an object, which may have CMRC's name of it."""
    if not file_io.is_object(holder):
        raise DataError(
            f"{place}: an object with the key {key!r} is needed. Received: {holder!r:.100}"
        )
    other = next((cmrc for cmrc, squad in _CMRC.items() if squad == key and cmrc in holder), key)
    if other not in holder:
        raise DataError(
            f"{place}: no key {key!r}. Received: the keys {list(holder)!r:.200}. "
            "Pass a file in SQuAD's format."
        )
    return holder[other]


def _list(holder: Any, key: str, place: str) -> list[Any]:
    """Return the value of a key, which must be a list."""
    value = _value(holder, key, place)
    if not file_io.is_array(value):
        raise DataError(f"{place}: {key!r} must be a list. Received: {value!r:.100}")
    return value


def _text(holder: Any, key: str, place: str) -> str:
    """Return the value of a key, which must be text. An id may also be a whole number."""
    value = _value(holder, key, place)
    if key == "id" and isinstance(value, int):
        value = str(value)
    return text_value(value, f"{place}: {key!r}")


def _nearest(context: str, text: str, start: int) -> int | None:
    """Return the start of the occurrence of `text` nearest to `start`, or None if there is none."""
    if text and start >= 0 and context.startswith(text, start):
        return start
    at = context.find(text) if text else -1
    begins: list[int] = []
    while at >= 0:
        begins.append(at)
        at = context.find(text, at + 1)
    return min(begins, key=lambda at: abs(at - start), default=None)


# === Examples for training ===


def question_rows(
    tokenizer: Tokenizer,
    questions: Sequence[Question],
    *,
    max_length: int,
    stride: int,
    max_question: int,
) -> tuple[EncodedTexts, list[Window], list[Pieces]]:
    """Encode each question with each window of its context: "[CLS] question [SEP] window [SEP]".

    Args:
        tokenizer: the tokenizer of the model.
        questions: questions on contexts. A context that is used again is tokenized once.
        max_length: maximum number of tokens in a row.
        stride: number of pieces from the start of a window to the start of the next.
        max_question: maximum number of pieces of a question; the rest of it is cut.

    Returns:
        The encoded rows, the window of each row, and the pieces of each question's context.
    """
    pieces: dict[str, Pieces] = {}
    windows: list[Window] = []
    num_cut = 0
    for number, question in enumerate(questions):
        if question.context not in pieces:
            pieces[question.context] = Pieces.of(tokenizer, question.context)
        asked = Pieces.of(tokenizer, question.question).ids
        num_cut += len(asked) > max_question
        windows += question_windows(
            tokenizer,
            number,
            asked[:max_question],
            pieces[question.context],
            max_length=max_length,
            stride=stride,
        )
    ids, segments = [w.ids for w in windows], [w.segments for w in windows]
    rows = EncodedTexts.of(ids, segments, tokenizer.pad_id, num_cut=num_cut)
    return rows, windows, [pieces[question.context] for question in questions]


def question_examples(
    tokenizer: Tokenizer,
    questions: Sequence[Question],
    *,
    max_length: int = 384,
    stride: int = 128,
    max_question: int = 64,
    **options: Any,
) -> SupervisedExamples:
    """Encode questions and answers as batches for a `QuestionAnswerer`.

    The targets of a batch are {"start": int32 [B], "end": int32 [B]}, the columns of the first and
    the last token of the answer. Both are 0 ([CLS]) for a row without the answer.

    Args:
        tokenizer: the tokenizer of the model.
        questions: questions with answers, of which the first is learned. A question that has no
            answer and is not impossible is left out, because its right answer is unknown.
        max_length: maximum number of tokens in a row; a longer context becomes several rows.
        stride: number of pieces from the start of a window to the start of the next.
        max_question: maximum number of pieces of a question; the rest of it is cut.
        options: options of `SupervisedExamples`.

    Raises:
        DataError: no question has an answer or is impossible.
        ValueError: a question leaves no room for its context.
    """
    questions = [question for question in questions if question.answers or question.is_impossible]
    if not questions:
        raise DataError(
            "The questions have no answers to train on. Pass at least one question that has "
            "`answers` or is_impossible=True."
        )
    rows, windows, pieces = question_rows(
        tokenizer, questions, max_length=max_length, stride=stride, max_question=max_question
    )
    spans = np.zeros((len(windows), 2), np.int32)
    for index, window in enumerate(windows):
        question = questions[window.source]
        if question.answers:
            spans[index] = _span(window, pieces[window.source], question)
    labels = {START: spans[:, 0], END: spans[:, 1]}
    return SupervisedExamples(rows, labels, max_length=max_length, **options)


def _span(window: Window, pieces: Pieces, question: Question) -> tuple[int, int]:
    """Return the columns of the first and last token of the answer in a row.

    They are (0, 0) if the window does not have all of the answer.
    """
    for answer in question.answers:
        stop = answer.start + len(answer.text)
        within = np.flatnonzero((pieces.ends > answer.start) & (pieces.starts < stop))
        if len(within):  # else the answer has only characters that the tokenizer drops
            break
    else:
        return 0, 0
    first, last = (int(piece) - window.first for piece in (within[0], within[-1]))
    if first < 0 or last >= window.count:
        return 0, 0
    return window.offset + first, window.offset + last
