"""Settings, results and the base of all methods that take texts and return answers."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from bert_keras import features, file_io
from bert_keras.data.columns import texts_of, values_of, words_of_rows
from bert_keras.errors import ArtifactError
from bert_keras.inference.batching import Runner

FILE = "predictor.json"


@dataclass(frozen=True)
class PredictorConfig:
    """Settings with which a model answers, as the file `predictor.json` keeps them.

    Attributes:
        max_length: most tokens of a text; None where nothing is said.
        options: of its answers, such as `null_threshold`.
        pairs: of a model that takes one text or two: whether it learned from two.
    """

    max_length: int | None = None
    options: dict[str, Any] = field(default_factory=dict)
    pairs: bool = False

    @classmethod
    def read(cls, path: Path) -> PredictorConfig:
        """Read a file.

        Raises:
            ArtifactError: the file is damaged.
        """
        values = file_io.read_object(path)
        file_io.refuse_unknown_keys(path, values, [each.name for each in fields(cls)])
        options, pairs = values.get("options", {}), values.get("pairs", False)
        if not isinstance(options, dict):
            raise ArtifactError(f"{path}: options must be an object. Received: {options!r:.100}")
        if not isinstance(pairs, bool):
            raise ArtifactError(f"{path}: pairs must be true or false. Received: {pairs!r:.100}")
        return cls(read_length(path, values, "max_length"), options, pairs)

    def write(self, path: Path) -> None:
        """Write a file that `read` reads."""
        file_io.write_json(path, asdict(self))


def read_length(path: Path, values: Mapping[str, Any], name: str) -> int | None:
    """Return a length among the values of a file; None where it has none.

    Raises:
        ArtifactError: not a whole number of at least 1.
    """
    value = values.get(name)
    if value is not None and (type(value) is not int or value < 1):
        raise ArtifactError(f"{path}: {name} must be a whole number. Received: {value!r:.100}")
    return value


# === One or many texts ===


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


# === Prompts ===


def prompt_options(
    prompts: Mapping[str, str] | None, default_prompt_name: str | None
) -> dict[str, Any]:
    """Return what a task keeps of its prompts: nothing where there are none.

    Raises:
        ValueError: a prompt is not a text, or the default is not one of them.
    """
    told = dict(prompts or {})
    if not all(isinstance(word, str) for pair in told.items() for word in pair):
        raise ValueError(f"`prompts` must give a text to each name. Received: prompts={told!r}")
    if default_prompt_name is not None and default_prompt_name not in told:
        raise ValueError(
            "`default_prompt_name` must be None or one of "
            f"{', '.join(told) or 'the names of `prompts`, which is empty'}. "
            f"Received: default_prompt_name={default_prompt_name!r}"
        )
    options: dict[str, Any] = {"prompts": told} if told else {}
    if default_prompt_name is not None:
        options["default_prompt_name"] = default_prompt_name
    return options


def prompt_of(
    options: Mapping[str, Any], prompt: str | None = None, prompt_name: str | None = None
) -> str:
    """Return the text that stands before every text; "" for none.

    Args:
        options: of the task.
        prompt: the text itself.
        prompt_name: its name among the task's prompts. Without either, the task's default.

    Raises:
        ValueError: both are given, or there is no prompt of this name.
    """
    if prompt is not None and prompt_name is not None:
        raise ValueError(
            "Give `prompt` or `prompt_name`, not both. "
            f"Received: prompt={prompt!r}, prompt_name={prompt_name!r}"
        )
    if prompt is not None:
        return prompt
    prompts: Mapping[str, str] = options.get("prompts", {})
    name = options.get("default_prompt_name") if prompt_name is None else prompt_name
    if name is None:
        return ""
    if name not in prompts:
        raise ValueError(
            f"`prompt_name` must be one of {', '.join(prompts) or 'the prompts of the model'}"
            f"{'' if prompts else ', which has none'}. Received: prompt_name={prompt_name!r}"
        )
    return prompts[name]


# === Results ===
# Character positions are those of the text that was given.


@dataclass(frozen=True, slots=True)
class Fill:
    """A token for a masked place.

    Attributes:
        token: the vocabulary entry, with "##" where it continues a word.
        token_id: its id.
        score: its probability.
    """

    token: str
    token_id: int
    score: float


@dataclass(frozen=True, slots=True)
class Label:
    """A label of a text.

    Attributes:
        label: its name.
        score: its probability.
    """

    label: str
    score: float


@dataclass(frozen=True, slots=True)
class Entity:
    """A named piece of a text.

    Attributes:
        label: what it is, such as "PER".
        text: as it stands there: text[start:end].
        start: its first character;
        end: the one behind its last.
        score: mean probability of its words' tags.
    """

    label: str
    text: str
    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a question.

    Attributes:
        text: as it stands in the context: context[start:end]; "" where there is none.
        start: its first character;
        end: the one behind its last.
        score: its probability among the best spans, and no answer.
        null_score: by how much no answer is better than the best span: difference of logits;
            infinite where the context has no span.
    """

    text: str
    start: int
    end: int
    score: float
    null_score: float


@dataclass(frozen=True, slots=True)
class Choice:
    """The best of several options.

    Attributes:
        index: its number.
        text: the option.
        score: its probability.
    """

    index: int
    text: str
    score: float


# === Base ===


# Output -> the call that opens a checkpoint with the head that has it.
_CURES = {
    features.LABEL: "SequenceClassifier.from_preset(folder, labels=[...])",
    features.TAGS: "TokenClassifier.from_preset(folder, labels=[...])",
    features.START: "QuestionAnswerer.from_preset(folder, new_head=True)",
    features.CHOICE: "MultipleChoice.from_preset(folder, new_head=True)",
    features.MLM: "MaskedLM.from_preset(folder)",
    features.NSP: "Pretrainer.from_preset(folder)",
}


class TextMethods:
    """Mixin of methods from texts to answers, shared by every task and by `Predictor`.

    A class says which model answers and with which tokenizer, batch size and length it runs.
    """

    def _answering(self) -> Any:
        """The task or encoder that answers."""
        raise NotImplementedError

    def _runner_of(self, model: Any, batch_size: int | None = None) -> Runner:
        """Return the runner of a model with this tokenizer and length.

        Args:
            model: the model that runs.
            batch_size: number of texts that run together; None for that of the class.
        """
        raise NotImplementedError

    def _runner(self, batch_size: int | None = None) -> Runner:
        return self._runner_of(self._answering(), batch_size)

    def _require(self, output: str, method: str) -> None:
        """Raise `ValueError` unless the model has this output."""
        outputs = list(self._answering().output)
        if output not in outputs:
            raise ValueError(
                f"`{method}` needs a model with an output {output!r}. Received: a "
                f"{type(self._answering()).__name__} with {', '.join(map(repr, outputs))}. "
                f"{_CURES[output]} opens such a model; a new head must be trained by `fit` first."
            )
