"""Model card `README.md` of a checkpoint folder, with front matter for the Hugging Face Hub.

The last line of a card has a digest of the text above it. By the digest, a later save recognises a
card that nobody changed, and replaces it. It never replaces another README.md.
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
from bert_keras.data.long_texts import WINDOWS
from bert_keras.escaping import markdown, printable
from bert_keras.inference import prompt_of
from bert_keras.inference.base import PredictorConfig
from bert_keras.task_names import WINDOW_TASKS
from bert_keras.tokenizers import Tokenizer

if TYPE_CHECKING:
    from bert_keras.models import BertEncoder, Task

CARD = "README.md"
# Task -> its pipeline on the Hugging Face Hub. The Hub has no pipeline for other tasks.
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
    "text_ranking": "text-ranking",
    "feature_extraction": "feature-extraction",
}
_FAMILIES = {
    "bert": "BERT",
    "roberta": "RoBERTa",
    "distilbert": "DistilBERT",
    "albert": "ALBERT",
    "electra": "ELECTRA",
    "xlm_roberta": "XLM-RoBERTa",
    "camembert": "CamemBERT",
    "data2vec_text": "data2vec",
    "mpnet": "MPNet",
    "modernbert": "ModernBERT",
    "nomic_bert": "Nomic BERT",
    "gte": "GTE",
    "jina_embeddings_v3": "Jina embeddings v3",
    "eurobert": "EuroBERT",
    "ultrabert": "UltraBERT",
    **dict.fromkeys(("deberta", "deberta_lm_head"), "DeBERTa"),
    **dict.fromkeys(("deberta_v2", "deberta_v2_lm_head"), "DeBERTa-v2"),
    "ernie": "ERNIE",
    "roformer": "RoFormer",
    "rembert": "RemBERT",
    "megatron_bert": "Megatron-BERT",
    "roberta_prelayernorm": "pre-norm RoBERTa",
    "xlm_roberta_xl": "XLM-RoBERTa-XL",
}
_MOST_LABELS = 100  # maximum number of rows in the table of labels
_LISTED_OPTIONS = ("prompts", "similarity", "activation")  # options of the task on a card
_LAST_LINE = re.compile(
    r"<!-- Written by bert_keras, which renews this file while nobody changes it\. "
    r"sha256: ([0-9a-f]{64}) -->\n\Z"
)
# Calls of this package in the code of a card, which take a handle "hf://…" instead of ".".
_OWN_CALL = re.compile(r'(\bbk\.[\w.]+)\("\."\)')


@dataclass(frozen=True)
class ModelCard:
    """Facts for a model card that are not stored in the model. Empty facts are not written.

    Attributes:
        title: heading, such as the name of the recipe; "" for the task and the family.
        license: the Hub's identifier of the license, such as "apache-2.0".
        language: ISO 639-1 codes of the languages, such as "en".
        base_model: models on the Hub that this one was made from, such as "organisation/name".
        datasets: data sets on the Hub that it was trained on.
        tags: further tags.
        metrics: metric -> value for this model.
        measured_on: examples with which `metrics` were measured, such as "872 examples of dev.tsv".
        training: facts about the training, such as "epochs" -> "3".
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
        """Return a model card from the argument `card`, a dictionary of facts.

        Raises:
            ValueError: if a fact is unknown, or its value has a wrong type.
        """
        kinds = {fact.name: type(getattr(cls(), fact.name)) for fact in fields(cls)}
        for name, value in (values or {}).items():
            if name not in kinds:
                raise ValueError(
                    f"`card` takes {', '.join(kinds)}. Received: {name!r}. Write other facts into "
                    f"{CARD}. It is not replaced once you have changed it."
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
        card: facts that the model does not have; see `ModelCard`.
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
    mark = _LAST_LINE.search(text)
    return mark is not None and mark[1] == _digest(text[: mark.start()])


def for_repository(text: str, repository: str) -> str:
    """Return an unchanged card with the name of its repository, instead of ".", in its code.

    Args:
        text: the card.
        repository: "organisation/name".
    """
    begin, end = "```python\n", "```\n"
    prose, *codes = _LAST_LINE.sub("", text).split(begin)
    parts = [prose]
    for part in codes:
        code, _, rest = part.partition(end)
        code = _OWN_CALL.sub(rf'\1("hf://{repository}")', code).replace(
            '(".")', f'("{repository}")'
        )
        parts.append(f"{code}{end}{rest}")
    return _marked(begin.join(parts))


def _marked(body: str) -> str:
    """Return a card with its last line, which has the digest of the text above."""
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
    lines += ["", "## Limits", "", *_limits(model, length, config.options, card)]
    body = "\n".join([*lines, ""])
    return _marked(f"---\n{front}---\n\n{body}\n")


def description(
    model: BertEncoder | Task,
    max_length: int,
    tokenizer: Tokenizer | None,
    options: Mapping[str, Any],
) -> Iterator[str]:
    """Yield lines that describe a model: its class, sizes and options.

    Args:
        model: encoder or task.
        max_length: maximum number of tokens of a text.
        tokenizer: its tokenizer; None for none.
        options: options of the prediction method, such as `null_threshold`.
    """
    sizes = encoder_of(model).config
    yield f"A {type(model).__name__} with {model.count_params():,} parameters."
    layers = "1 layer" if sizes.num_layers == 1 else f"{sizes.num_layers} layers"
    family = _FAMILIES.get(sizes.family, sizes.family)
    yield f"The encoder is {family} with {layers} and hidden size {sizes.hidden_size}."
    yield f"It reads at most {max_length} tokens at once."
    if tokenizer is not None:
        yield f"The vocabulary has {tokenizer.vocab_size:,} tokens."
    if options:
        shown = ", ".join(f"{key}={value}" for key, value in options.items())
        yield f"Options of the predictions: {markdown(shown)}."
    named = [options.get(name) for name in ("prompt", "prompt_name")]
    if prompt := prompt_of(model.options, *named):
        yield f"The prompt {markdown(repr(prompt))} is put before each text."
    if listed := {name: model.options[name] for name in _LISTED_OPTIONS if name in model.options}:
        shown = ", ".join(f"{name}={value!r}" for name, value in listed.items())
        yield f"Options of the model: {markdown(shown)}."


def model_length(model: BertEncoder | Task) -> int:
    """Return the maximum number of tokens of a row, which is the encoder's number of positions."""
    return encoder_of(model).config.max_positions


def _front_matter(
    model: BertEncoder | Task, tokenizer: Tokenizer | None, card: ModelCard
) -> dict[str, Any]:
    """Return the front matter; see https://huggingface.co/docs/hub/model-cards."""
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
    """Return a text or a sequence of texts as a list, without empty texts."""
    return [text for text in ([value] if isinstance(value, str) else value) if text]


def _is_known(value: float | None) -> bool:
    """Return whether a metric has a value."""
    return value is not None and math.isfinite(value)


def _in_one_line(value: Any) -> Any:
    """Return nested values whose texts have one line, and escapes for lone surrogates.

    PyYAML writes some line ends, such as U+0085, so that a YAML reader replaces them by a space.
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
    """Yield a table of the labels, if the model has labels."""
    labels: Sequence[str] = model.options.get("labels") or ()
    if not labels:
        return
    yield from ("", "## Labels", "", "| id | label |", "| --- | --- |")
    for number, label in enumerate(labels[:_MOST_LABELS]):
        yield f"| {number} | {markdown(label)} |"
    if len(labels) > _MOST_LABELS:
        yield from ("", f"{len(labels):,} labels in all; `bert_keras.json` lists them.")


def _training(card: ModelCard) -> Iterator[str]:
    """Yield the facts of the training and the metrics, if the card has them."""
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
    has_seeds = bool(card.seeds)  # they fill a third column
    yield "| metric | this model |" + " all seeds |" * has_seeds
    yield "| --- | --- |" + " --- |" * has_seeds
    for name, value in metrics.items():
        seeds = f" {markdown(card.seeds.get(name, ''))} |" if has_seeds else ""
        yield f"| {markdown(name)} | {value:.4f} |{seeds}"


def _limits(
    model: BertEncoder | Task, length: int, options: Mapping[str, Any], card: ModelCard
) -> Iterator[str]:
    """Yield the limits of a model as a Markdown list."""
    if model.task_name in WINDOW_TASKS or options.get("long_texts") == WINDOWS:
        yield f"- A text of more than {length} tokens is read in overlapping windows."
    else:
        yield f"- The model reads at most {length} tokens of a text, and ignores the rest."
    if not any(_is_known(value) for value in card.metrics.values()):
        yield "- This card has no results. Evaluate the model on your own texts first."
    else:
        yield "- The results are those of the examples above. Other texts may have worse results."
    if not opens("transformers", model):
        yield "- transformers has no class for this model, so it cannot open the folder."
