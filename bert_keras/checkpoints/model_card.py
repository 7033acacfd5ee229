"""Model card `README.md` of a checkpoint folder: front matter for the Hugging Face Hub, and a page.

The last line of a card has a digest of the text above it. So a later save knows a card that nobody
changed, and renews it. It leaves every other README.md as it is.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bert_keras import file_io
from bert_keras.checkpoints.checkpoint import encoder_of
from bert_keras.checkpoints.model_card_code import opens, usage
from bert_keras.escaping import markdown, printable
from bert_keras.inference import prompt_of
from bert_keras.inference.base import PredictorConfig
from bert_keras.tokenizers import Tokenizer

if TYPE_CHECKING:
    from bert_keras.models import BertEncoder, Task

CARD = "README.md"
# Task -> its name among the pipelines of the Hugging Face Hub. Other tasks have none there.
PIPELINES = {
    **dict.fromkeys(
        (
            *("text_classification", "multi_label_classification", "text_regression"),
            "pair_classification",
        ),
        "text-classification",
    ),
    **dict.fromkeys(("sentence_similarity", "retrieval"), "sentence-similarity"),
    **dict.fromkeys(("fill_mask", "pretraining"), "fill-mask"),
    "token_classification": "token-classification",
    "question_answering": "question-answering",
    "multiple_choice": "multiple-choice",
    "feature_extraction": "feature-extraction",
}
_FAMILIES = {
    "bert": "BERT",
    "roberta": "RoBERTa",
    "distilbert": "DistilBERT",
    "albert": "ALBERT",
    "electra": "ELECTRA",
}
_MOST_LABELS = 100  # rows of the table of labels
_TOLD = ("prompts", "similarity", "activation")  # options of the task that a card lists
_MARK = re.compile(
    r"<!-- Written by bert_keras, which renews this file while nobody changes it\. "
    r"sha256: ([0-9a-f]{64}) -->\n\Z"
)
_OURS = re.compile(r'(\bbk\.[\w.]+)\("\."\)')  # calls that take a handle "hf://…"


@dataclass(frozen=True)
class ModelCard:
    """Facts of a model card that the model itself does not know. Only those known are written.

    Attributes:
        title: heading, such as the name of the recipe; "" for the task and the family.
        license: identifier of the license on the Hub, such as "apache-2.0".
        language: ISO 639-1 codes of the languages, such as "en".
        base_model: models on the Hub that this one was made from, such as "organisation/name".
        datasets: data sets on the Hub that it was trained on.
        tags: further tags.
        metrics: metric -> value, of this model.
        measured_on: the examples of `metrics`, such as "872 examples of dev.tsv".
        training: facts of the training, fact -> value.
        seeds: metric -> text with its mean and deviation over several seeds.
    """

    title: str = ""
    license: str = ""
    language: str | Sequence[str] = ()
    base_model: str | Sequence[str] = ()
    datasets: str | Sequence[str] = ()
    tags: str | Sequence[str] = ()
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    measured_on: str = ""
    training: Mapping[str, str] = field(default_factory=dict)
    seeds: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, values: Mapping[str, Any] | None) -> ModelCard:
        """Return the facts that a caller passed by name.

        Raises:
            ValueError: if there is no such fact, or a value is of another type.
        """
        kinds = {fact.name: type(getattr(cls(), fact.name)) for fact in fields(cls)}
        for name, value in (values or {}).items():
            if name not in kinds:
                raise ValueError(
                    f"`card` takes {', '.join(kinds)}. Received: {name!r}. Other facts belong "
                    f"into the text: change {CARD}, which is then never replaced."
                )
            is_texts = kinds[name] is tuple and _are_texts(value)
            wanted = Mapping if kinds[name] is dict else str
            if not is_texts and not isinstance(value, wanted):
                kind = {dict: "a dictionary", tuple: "a str or a list of str", str: "a str"}
                raise ValueError(
                    f"`card[{name!r}]` must be {kind[kinds[name]]}. Received: {value!r:.100}"
                )
        return cls(**(values or {}))


def _are_texts(value: Any) -> bool:
    """Return whether a value is a list or tuple of strings."""
    return isinstance(value, list | tuple) and all(isinstance(text, str) for text in value)


def write_model_card(
    directory: str | Path,
    model: BertEncoder | Task,
    *,
    tokenizer: Tokenizer | None = None,
    config: PredictorConfig | None = None,
    card: Mapping[str, Any] | None = None,
) -> None:
    """Write the model card of a checkpoint folder, unless a person wrote one.

    Args:
        directory: folder of the checkpoint.
        model: encoder or task in it.
        tokenizer: tokenizer in the folder; None if it has none.
        config: settings of the predictions; None for the defaults.
        card: further facts; see `ModelCard`.
    """
    facts, path = ModelCard.of(card), Path(directory) / CARD
    if path.exists() and not is_own(path):
        return
    file_io.write_text(path, text_of(model, tokenizer, config or PredictorConfig(), facts))


def is_own(path: Path) -> bool:
    """Return whether this package wrote a model card and nobody changed it."""
    try:
        return is_own_text(path.read_bytes().decode())
    except (OSError, UnicodeDecodeError):
        return False


def is_own_text(text: str) -> bool:
    """Return whether the last line of a card has the digest of the text above it."""
    mark = _MARK.search(text)
    return mark is not None and mark[1] == _digest(text[: mark.start()])


def for_repository(text: str, repository: str) -> str:
    """Return a card of our own with the name of its repository in the code, instead of ".".

    Args:
        text: the card.
        repository: "organisation/name".
    """
    begin, end = "```python\n", "```\n"
    prose, *codes = _MARK.sub("", text).split(begin)
    parts = [prose]
    for part in codes:
        code, _, rest = part.partition(end)
        code = _OURS.sub(rf'\1("hf://{repository}")', code).replace('(".")', f'("{repository}")')
        parts.append(f"{code}{end}{rest}")
    return _marked(begin.join(parts))


def _marked(body: str) -> str:
    """Return a card with the line that has its digest."""
    return (
        f"{body}<!-- Written by bert_keras, which renews this file while nobody changes it. "
        f"sha256: {_digest(body)} -->\n"
    )


def _digest(body: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(body.encode()).hexdigest()


# === Text ===


def text_of(
    model: BertEncoder | Task,
    tokenizer: Tokenizer | None,
    config: PredictorConfig,
    card: ModelCard,
) -> str:
    """Return the text of a model card; `write_model_card` describes the arguments."""
    import yaml

    values = _front_matter(model, tokenizer, card)
    front = yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=10_000)
    lines = [f"# {markdown(_title(model, card))}", ""]
    length = min(config.max_length or model_length(model), model_length(model))
    lines += description(model, length, tokenizer, config.options)
    lines += _labels(model)
    lines += ["", "## Use", "", *usage(model, tokenizer, config)]
    lines += _training(card)
    lines += ["", "## Limits", "", *_limits(model, length, card)]
    body = "\n".join([*lines, ""])
    return _marked(f"---\n{front}---\n\n{body}\n")


def description(
    model: BertEncoder | Task,
    max_length: int,
    tokenizer: Tokenizer | None,
    options: Mapping[str, Any],
) -> Iterator[str]:
    """Yield lines on a model: class, size, length of its texts, and options of its answers.

    Args:
        model: encoder or task.
        max_length: maximum number of tokens of a text.
        tokenizer: its tokenizer; None for none.
        options: options of the prediction method, such as `null_threshold`.
    """
    sizes = encoder_of(model).config
    yield f"A {type(model).__name__} of {model.count_params():,} parameters: {sizes.family},"
    vocabulary = "" if tokenizer is None else f" of a vocabulary of {tokenizer.vocab_size:,}"
    layers = "1 layer" if sizes.num_layers == 1 else f"{sizes.num_layers} layers"
    yield (
        f"{layers}, {sizes.hidden_size} wide. Texts are read to {max_length} tokens{vocabulary}."
    )
    if options:
        shown = ", ".join(f"{key}={value}" for key, value in options.items())
        yield f"It answers with {markdown(shown)}."
    named = [options.get(name) for name in ("prompt", "prompt_name")]
    if prompt := prompt_of(model.options, *named):
        yield f"Before each text it reads the prompt {markdown(repr(prompt))}."
    if listed := {name: model.options[name] for name in _TOLD if name in model.options}:
        shown = ", ".join(f"{name}={value!r}" for name, value in listed.items())
        yield f"It keeps these options: {markdown(shown)}."


def model_length(model: BertEncoder | Task) -> int:
    """Return the largest number of tokens of a text that a model can read."""
    return encoder_of(model).config.max_positions


def _front_matter(
    model: BertEncoder | Task, tokenizer: Tokenizer | None, card: ModelCard
) -> dict[str, Any]:
    """Return the front matter: https://huggingface.co/docs/hub/model-cards."""
    pipeline, family = PIPELINES.get(model.task_name), encoder_of(model).config.family
    others = [name for name in ("transformers", "sentence-transformers") if opens(name, model)]
    tags = ["bert_keras", "keras", family, model.task_name.replace("_", "-")]
    metrics = {name: value for name, value in card.metrics.items() if _is_known(value)}
    values = {
        "language": _listed(card.language),
        "license": card.license,
        "library_name": "keras",
        "tags": [*tags, *(others if tokenizer is not None else ()), *_listed(card.tags)],
        "datasets": _listed(card.datasets),
        "metrics": list(metrics),
        "base_model": _listed(card.base_model),
        "pipeline_tag": pipeline,
    }
    if metrics and pipeline:
        data = {"type": "other", "name": card.measured_on or "validation examples"}
        values["model-index"] = [
            {
                "name": _title(model, card),
                "results": [
                    {
                        "task": {"type": pipeline},
                        "dataset": data,
                        "metrics": [
                            {"type": name, "name": name, "value": float(value or 0)}
                            for name, value in metrics.items()
                        ],
                    }
                ],
            }
        ]
    return {name: value for name, value in _in_one_line(values).items() if value}


def _listed(value: str | Sequence[str]) -> list[str]:
    """Return one text or several as a list, without empty ones."""
    return [text for text in ([value] if isinstance(value, str) else value) if text]


def _is_known(value: float | None) -> bool:
    """Return whether a metric has a value."""
    return value is not None and math.isfinite(value)


def _in_one_line(value: Any) -> Any:
    """Return nested values with texts of one line, and an escape for each lone surrogate.

    PyYAML would write some line ends, such as U+0085, so that a reader takes them for a space.
    """
    if isinstance(value, dict):
        return {name: _in_one_line(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_in_one_line(item) for item in value]
    return " ".join(printable(value).split()) if isinstance(value, str) else value


def _title(model: BertEncoder | Task, card: ModelCard) -> str:
    """Return the heading: the title of the card, or the task and the family."""
    family = encoder_of(model).config.family
    words = model.task_name.replace("_", " ").capitalize()
    return card.title or f"{words} with {_FAMILIES.get(family, family)}"


def _labels(model: BertEncoder | Task) -> Iterator[str]:
    """Yield a table of the labels, if the model has names for them."""
    labels: Sequence[str] = model.options.get("labels") or ()
    if not labels:
        return
    yield from ("", "## Labels", "", "| id | label |", "| --- | --- |")
    for number, label in enumerate(labels[:_MOST_LABELS]):
        yield f"| {number} | {markdown(label)} |"
    if len(labels) > _MOST_LABELS:
        yield from ("", f"{len(labels):,} labels in all; `bert_keras.json` lists them.")


def _training(card: ModelCard) -> Iterator[str]:
    """Yield the training and its results, if they are known."""
    if card.training:
        yield from ("", "## Training", "", "| | |", "| --- | --- |")
        for name, value in card.training.items():
            yield f"| {markdown(name)} | {markdown(value)} |"
    metrics = {name: value for name, value in card.metrics.items() if _is_known(value)}
    if not metrics:
        return
    yield from ("", "## Results", "")
    if card.measured_on:
        yield from (f"Measured on {markdown(card.measured_on)}.", "")
    ends = (" all seeds |", " --- |") if card.seeds else ("", "")
    yield from (f"| metric | this model |{ends[0]}", f"| --- | --- |{ends[1]}")
    for name, value in metrics.items():
        end = f" {markdown(card.seeds.get(name, ''))} |" if card.seeds else ""
        yield f"| {markdown(name)} | {value:.4f} |{end}"


def _limits(model: BertEncoder | Task, length: int, card: ModelCard) -> Iterator[str]:
    """Yield the limits of a model as a Markdown list."""
    yield f"- A text has at most {length} tokens. The rest of a longer text is not read."
    if not any(_is_known(value) for value in card.metrics.values()):
        yield "- This card has no measured results. Measure the model on texts of your own first."
    else:
        yield "- The results hold for the examples above. The answers for other texts may be worse."
    if not opens("transformers", model):
        yield "- transformers has no class for this model, and does not open the folder."
