"""Settings, result classes and the base class of all prediction methods."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from bert_keras import features, file_io
from bert_keras.data.columns import texts_of, values_of, words_of_rows
from bert_keras.data.long_texts import WINDOWS, check_long_texts
from bert_keras.errors import ArtifactError
from bert_keras.inference.batching import Runner

FILE = "predictor.json"


@dataclass(frozen=True)
class PredictorConfig:
    """Settings of a model's predictions, stored in the file `predictor.json`.

    Attributes:
        max_length: maximum number of tokens of a text; None if it is not stated.
        options: options of the prediction method, such as `null_threshold`.
        pairs: True if a model that can read one text or two was trained with pairs of texts.
    """

    max_length: int | None = None
    options: dict[str, Any] = field(default_factory=dict)
    pairs: bool = False

    @classmethod
    def read(cls, path: Path) -> PredictorConfig:
        """Read the settings from a JSON file.

        Raises:
            ArtifactError: if the file is damaged.
        """
        values = file_io.read_object(path)
        file_io.refuse_unknown_keys(path, values, [setting.name for setting in fields(cls)])
        options, pairs = values.get("options", {}), values.get("pairs", False)
        if not isinstance(options, dict):
            raise ArtifactError(f"{path}: options must be an object. Received: {options!r:.100}")
        if not isinstance(pairs, bool):
            raise ArtifactError(f"{path}: pairs must be true or false. Received: {pairs!r:.100}")
        return cls(read_length(path, values, "max_length"), options, pairs)

    def write(self, path: Path) -> None:
        """Write the settings into a JSON file."""
        file_io.write_json(path, asdict(self))


def read_length(path: Path, values: Mapping[str, Any], name: str) -> int | None:
    """Return the length `name` among the values of a JSON file; None if it is missing.

    Raises:
        ArtifactError: if it is not a whole number of at least 1.
    """
    value = values.get(name)
    if value is not None and (type(value) is not int or value < 1):
        raise ArtifactError(
            f"{path}: {name} must be a whole number of at least 1. Received: {value!r:.100}"
        )
    return value


# === One or many texts ===


_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def one_or_many(
    *texts: str, words: str = ""
) -> Callable[[Callable[_Parameters, _Result]], Callable[_Parameters, _Result]]:
    """Return a decorator that lets a prediction method take one row as well as columns.

    The method itself takes columns and returns a list of answers. The decorated method accepts
    columns from any container, as `fit` does. It also accepts one row: a str for a column of texts,
    a list of str for a column of word lists. Then it returns one answer instead of a list.

    Args:
        texts: names of the parameters that are columns of texts.
        words: name of the parameter that is a column of lists of words or options; "" for none.

    Raises:
        TypeError: by the method, if one parameter is a row and another a column, or words are
            texts.
        DataError: by the method, if a row is missing or not a text. The message names the row.
    """

    def decorate(method: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
        """Return the method with checks and a conversion of its columns."""
        signature = inspect.signature(method)

        @functools.wraps(method)
        def run(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> Any:
            """Call the method on columns; return one answer for a single row."""
            bound = signature.bind(*args, **kwargs)
            columns = {
                name: bound.arguments[name]
                for name in (*texts, words)
                if bound.arguments.get(name) is not None
            }
            if words in columns:
                columns[words] = _column_of_words(words, columns[words])
            are_one = {
                name: _is_row_of_words(value) if name == words else isinstance(value, str)
                for name, value in columns.items()
            }
            is_one = any(are_one.values())
            if is_one and not all(are_one.values()):
                row = next(name for name, is_row in are_one.items() if is_row)
                column = next(name for name, is_row in are_one.items() if not is_row)
                raise TypeError(
                    f"`{row}` is one text or row, and `{column}` is a list of them. Pass one of "
                    f"each, or lists of the same length. Received: {row}={columns[row]!r:.100}"
                )
            if is_one and not texts:
                _check_words(words, columns[words])
            for name, value in columns.items():
                column = [value] if is_one else value
                read = words_of_rows if name == words else texts_of
                bound.arguments[name] = read(name, column)
            answers: Any = method(*bound.args, **bound.kwargs)
            return answers[0] if is_one else answers

        return run

    return decorate


def _column_of_words(name: str, value: Any) -> Any:
    """Return a column of word lists that can be read twice: an iterator becomes a list.

    Raises:
        TypeError: if it is one str.
    """
    if isinstance(value, str):
        raise TypeError(
            f"`{name}` must be a list of str, or a list of such lists. Received: one string, "
            f"{value!r:.100}"
        )
    return list(value) if isinstance(value, Iterator) else value


def _check_words(name: str, row: Any) -> None:
    """Raise `TypeError` if the words of one sentence are really a list of texts."""
    if text := next((word for word in values_of(name, row) if len(word.split()) > 1), None):
        raise TypeError(
            f"`{name}` must be lists of words, or the words of one sentence. Split texts into "
            f"words, or call `predict_entities`. Received: {text!r:.100}"
        )


def _is_row_of_words(value: Any) -> bool:
    """Return whether a value is one list of words instead of a column of lists."""
    rows = values_of("words", value)
    return bool(rows) and isinstance(rows[0], str)


# === Prompts ===


def prompt_options(
    prompts: Mapping[str, str] | None, default_prompt_name: str | None
) -> dict[str, Any]:
    """Return the options `prompts` and `default_prompt_name` of a task, without empty ones.

    Args:
        prompts: name -> text that is put before texts.
        default_prompt_name: name of the prompt that is used by default; None for none.

    Raises:
        ValueError: if a prompt is not a string, or the default is not one of the names.
    """
    texts = dict(prompts or {})
    if not all(isinstance(word, str) for pair in texts.items() for word in pair):
        raise ValueError(f"`prompts` must give a text to each name. Received: prompts={texts!r}")
    if default_prompt_name is not None and default_prompt_name not in texts:
        raise ValueError(
            "`default_prompt_name` must be None or one of "
            f"{', '.join(texts) or 'the names of `prompts`, which is empty'}. "
            f"Received: default_prompt_name={default_prompt_name!r}"
        )
    options: dict[str, Any] = {"prompts": texts} if texts else {}
    if default_prompt_name is not None:
        options["default_prompt_name"] = default_prompt_name
    return options


def prompt_of(
    options: Mapping[str, Any], prompt: str | None = None, prompt_name: str | None = None
) -> str:
    """Return the prompt that is put before every text; "" for none.

    Args:
        options: options of the task.
        prompt: text of the prompt.
        prompt_name: name of the prompt in the task's options. Without `prompt` and `prompt_name`,
            the task's default applies.

    Raises:
        ValueError: if both are passed, or the task has no prompt of this name.
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
# Character positions refer to the text as the caller passed it.


@dataclass(frozen=True, slots=True)
class Fill:
    """A predicted token for a mask.

    Attributes:
        token: vocabulary entry, with "##" if it continues a word.
        token_id: id of the entry.
        score: its probability.
    """

    token: str
    token_id: int
    score: float


@dataclass(frozen=True, slots=True)
class Label:
    """A predicted label of a text.

    Attributes:
        label: name of the label.
        score: its probability.
    """

    label: str
    score: float


@dataclass(frozen=True, slots=True)
class Entity:
    """A named entity in a text.

    Attributes:
        label: type of the entity, such as "PER".
        text: the entity's part of the text, text[start:end].
        start: index of its first character.
        end: index after its last character.
        score: mean probability of the tags of its words or tokens.
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
        text: the answer's part of the context, context[start:end]; "" for no answer.
        start: index of its first character in the context.
        end: index after its last character.
        score: its probability among the best spans and no answer.
        null_score: logit of no answer minus logit of the best span; infinite if the context has no
            span.
    """

    text: str
    start: int
    end: int
    score: float
    null_score: float


@dataclass(frozen=True, slots=True)
class Choice:
    """The most probable of several options.

    Attributes:
        index: index of the option.
        text: text of the option.
        score: its probability.
    """

    index: int
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class Ranked:
    """A document in the order of its score for a query.

    Attributes:
        index: index of the document.
        text: text of the document.
        score: score of the query and the document; higher is better.
    """

    index: int
    text: str
    score: float


# === Base ===


# Output of a model -> a call that opens a model with this output, for messages.
_CURES = {
    features.LABEL: "SequenceClassifier.from_preset(folder, labels=[...])",
    features.TAGS: "TokenClassifier.from_preset(folder, labels=[...])",
    features.START: "QuestionAnswerer.from_preset(folder, new_head=True)",
    features.CHOICE: "MultipleChoice.from_preset(folder, new_head=True)",
    features.SCORE: "TextRanker.from_preset(folder, new_head=True)",
    features.MLM: "MaskedLM.from_preset(folder)",
    features.NSP: "Pretrainer.from_preset(folder)",
}


class TextMethods:
    """Mixin of prediction methods, shared by all tasks and by `Predictor`.

    A subclass defines the model, and the tokenizer, batch size and length with which it runs.
    """

    def _prediction_model(self) -> Any:
        """Return the task or encoder that computes the answers."""
        raise NotImplementedError

    def _prediction_options(self) -> Mapping[str, Any]:
        """Return the default options of the prediction method."""
        raise NotImplementedError

    def _runner_of(self, model: Any, batch_size: int | None = None, **reading: Any) -> Runner:
        """Return a runner of a model with the tokenizer and length of this object.

        Args:
            model: model to run.
            batch_size: number of examples in a batch; None for the default of this object.
            reading: `long_texts` and `stride` of the runner.
        """
        raise NotImplementedError

    def _runner(self, batch_size: int | None = None, **reading: Any) -> Runner:
        """Return a runner of the model that computes the answers."""
        return self._runner_of(self._prediction_model(), batch_size, **reading)

    def _reading(self, long_texts: str | None, stride: int | None) -> dict[str, Any]:
        """Return `long_texts` and `stride` of a runner; where they are None, the default options.

        Raises:
            ValueError: if a value is not valid.
        """
        options = self._prediction_options()
        usual = options.get("long_texts")
        long_texts = usual if long_texts is None else long_texts
        if stride is None and long_texts == WINDOWS == usual:
            stride = options.get("stride")
        check_long_texts(long_texts, stride)
        return {"long_texts": long_texts, "stride": stride}

    def _require(self, output: str, method: str) -> None:
        """Raise `ValueError` unless the model has this output."""
        outputs = list(self._prediction_model().output)
        if output not in outputs:
            raise ValueError(
                f"`{method}` needs a model with an output {output!r}. Received: a "
                f"{type(self._prediction_model()).__name__} with {', '.join(map(repr, outputs))}. "
                f"{_CURES[output]} opens such a model; a new head must be trained by `fit` first."
            )
