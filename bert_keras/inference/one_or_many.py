"""One text in, one answer out: the same rule for every method that answers."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

from bert_keras.data.columns import texts_of, values_of, words_of_rows

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def one_or_many(
    *texts: str, words: str = ""
) -> Callable[[Callable[_Parameters, _Result]], Callable[_Parameters, _Result]]:
    """Return a decorator of a method that has a list of answers for columns of text.

    The decorated method takes columns from any container, as `fit` does. It also takes one row:
    one str where a column is one of texts, one list of str where it is one of words. Then it
    returns the first of its answers, without the list.

    Args:
        texts: names of parameters that are columns of texts.
        words: name of a parameter that is a column of lists of words or options; "" for none.

    Raises:
        TypeError: one row for one parameter and a column for another, or texts instead of words.
        DataError: a row that is missing or no text; names the row. Raised by the method.
    """

    def decorate(method: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
        signature = inspect.signature(method)

        @functools.wraps(method)
        def run(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> Any:
            bound = signature.bind(*args, **kwargs)
            given = {
                name: bound.arguments[name]
                for name in (*texts, words)
                if bound.arguments.get(name) is not None
            }
            if words in given:
                given[words] = _column_of_words(words, given[words])
            are_one = {
                name: _is_row_of_words(value) if name == words else isinstance(value, str)
                for name, value in given.items()
            }
            is_one = any(are_one.values())
            if is_one and not all(are_one.values()):
                one = next(name for name, each in are_one.items() if each)
                other = next(name for name, each in are_one.items() if not each)
                raise TypeError(
                    f"`{one}` is one text or row, and `{other}` is a list of them. Pass one of "
                    f"each, or lists of the same length. Received: {one}={given[one]!r:.100}"
                )
            if is_one and not texts:
                _check_words(words, given[words])
            for name, value in given.items():
                column = [value] if is_one else value
                read = words_of_rows if name == words else texts_of
                bound.arguments[name] = read(name, column)
            answers: Any = method(*bound.args, **bound.kwargs)
            return answers[0] if is_one else answers

        return run

    return decorate


def _column_of_words(name: str, value: Any) -> Any:
    """Return a column that can be read twice.

    Raises:
        TypeError: one str, which is no list of words.
    """
    if isinstance(value, str):
        raise TypeError(
            f"`{name}` must be a list of str, or a list of such lists. Received: one string, "
            f"{value!r:.100}"
        )
    return list(value) if isinstance(value, Iterator) else value


def _check_words(name: str, row: Any) -> None:
    """Raise `TypeError` where a list of texts is taken for the words of one sentence."""
    if text := next((word for word in values_of(name, row) if len(word.split()) > 1), None):
        raise TypeError(
            f"`{name}` must be lists of words, or the words of one sentence. Split texts into "
            f"words, or call `predict_entities`. Received: {text!r:.100}"
        )


def _is_row_of_words(value: Any) -> bool:
    rows = values_of("words", value)
    return bool(rows) and isinstance(rows[0], str)
