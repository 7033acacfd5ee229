"""Report of a pretraining run: results, data, cost."""

from __future__ import annotations

import dataclasses
import datetime
import math
import os
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import keras
import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bert_keras import escaping, file_io, presets
from bert_keras.data import Corpus, dataset
from bert_keras.escaping import markdown, markdown_block
from bert_keras.features import PAIR_LOSSES
from bert_keras.models import Task
from bert_keras.predictor import Predictor
from bert_keras.resume import MetricsLog
from bert_keras.tokenizers import Tokenizer
from bert_keras.training import machine, pretrain_setup
from bert_keras.training.overrides import with_changes
from bert_keras.training.pretrain_recipe import PretrainRecipe
from bert_keras.training.pretrain_setup import (
    TrainingCorpora,
    apply_packing,
    batch_statistics,
    evaluation_batches,
)
from bert_keras.training.progress import clock
from bert_keras.training.run_folder import TEXT_VALUES, PretrainFolder
from bert_keras.training.setup import compile_to_evaluate

_BASELINE = (
    "A model that knows only the frequency of each token, and no context, has a loss of at best "
    "{0.entropy:.3f} nats: the unigram entropy of the validation tokens. Its loss is "
    "{0.cross_entropy:.3f} nats with the frequencies of the training text. A lower loss shows that "
    "the model uses the context."
)

Row = tuple[str, ...]  # measure, value, remark


@dataclasses.dataclass(frozen=True)
class FilledMask:
    """A validation text with one [MASK], the original token, and predictions, best first."""

    text: str
    answer: str
    guesses: Sequence[tuple[str, float]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """Facts of a run. Shares are between 0 and 1, losses and entropies in nats."""

    # The settings.
    recipe: str
    command: str
    date: str
    backend: str
    versions: Mapping[str, str]
    machine: Mapping[str, object]  # of machine.facts()
    settings: Mapping[str, object]  # the recipe's values
    # The data.
    documents: int  # to train on, without those of the validation split
    tokens: int
    validation_documents: int
    validation_tokens: int
    vocab_size: int
    unknown_share: float  # of the tokens
    padding_share: float  # of the batches' positions
    masks_per_row: float
    pair_balance: float | None = None  # share of the pairs with label 1; None: no pairs
    dropped_share: float = 0.0  # of the examples, left out for that balance
    # The result on validation documents.
    entropy: float  # pretrain_setup.entropy
    cross_entropy: float  # pretrain_setup.cross_entropy
    mlm_loss: float
    mlm_accuracy: float
    mlm_targets: int  # masked tokens that were measured
    loss: str = "nsp"  # or "sop", "rtd", "mlm"
    pair_accuracy: float | None = None
    pair_count: int = 0
    # Of telling replaced tokens from original ones: loss in nats, accuracy, share of the replaced.
    rtd: tuple[float, float, float] | None = None
    # The cost.
    parameters: int
    steps: int
    tokens_per_second: float  # useful ones, without padding
    waiting_share: float | None  # of the steps' time, for batches
    wall_seconds: float
    peak_memory: int | None  # bytes, of machine.peak_memory_bytes()
    attention: str  # the kernel in training
    filled: Sequence[FilledMask] = ()
    picture: str | None = None  # path relative to the report's folder


def write_report(path: str | os.PathLike[str], facts: Report) -> Path:
    """Write the report as Markdown; return its path."""
    lines = [f"# {markdown(facts.recipe)}: pretraining report", ""]
    lines += [f"- **{name}: {value}**, {remark}." for name, value, remark in _results(facts)]
    if facts.picture:
        lines += ["", f"![Loss and accuracy over the steps]({facts.picture})"]
    lines += ["", _BASELINE.format(facts), "", "## The data", "", *markdown_table(_data(facts))]
    cost = [tuple(map(markdown, row)) for row in _cost(facts)]
    lines += ["", "## The cost", "", *markdown_table(cost)]
    if facts.filled:
        lines += ["", "## Filled masks", "", "Validation text; the right token is in bold.", ""]
        rows = [
            (markdown(mask.text), markdown(mask.answer), _guesses(mask)) for mask in facts.filled
        ]
        lines += markdown_table(rows, ("text", "right", "best guesses"))
    lines += ["", "## Settings", "", *markdown_block(facts.command), ""]
    lines += markdown_table(_origin(facts), ("", ""))
    file_io.write_text(path, "\n".join([*lines, ""]))
    return Path(path)


def card_of(recipe: PretrainRecipe, report: Report | None) -> dict[str, object]:
    """Return the facts of the model card of a run, without paths.

    Args:
        recipe: recipe of the run.
        report: its results; None if they could not be measured.
    """
    base_model = presets.repository_of(recipe.init_checkpoint)
    card: dict[str, object] = {"title": recipe.name, "base_model": base_model}
    training = {"recipe": recipe.name, "init_checkpoint": base_model}
    if report is not None:
        card["metrics"] = {"mlm_loss": report.mlm_loss, "mlm_accuracy": report.mlm_accuracy}
        if report.pair_accuracy is not None:
            card["metrics"] |= {f"{report.loss}_accuracy": report.pair_accuracy}
        card["measured_on"] = (
            f"{report.mlm_targets:,} masked tokens of {report.validation_documents:,} validation "
            "documents"
        )
        training |= {
            "text": f"{Path(recipe.corpus).name}: {report.documents:,} documents, "
            f"{report.tokens:,} tokens",
            "steps": f"{report.steps:,}",
            "loss": report.loss,
        }
    return {**card, "training": {name: value for name, value in training.items() if value}}


def print_summary(report: Report, *, console: Console | None = None) -> None:
    """Print the results, the cost and the filled masks (on stdout by default)."""
    numbers = Table("measure", "value", "remark", title=f"{report.recipe}: validation documents")
    for row in (*_results(report), *_cost(report)):
        numbers.add_row(*map(Text, row))
    masks = Table("text", "right", "best guesses", title="Filled masks, validation text")
    for mask in report.filled:
        guesses = Text(", ").join(
            Text(f"{token} {_percent(share)}", "bold green" if token == mask.answer else "")
            for token, share in mask.guesses
        )
        masks.add_row(Text(mask.text), Text(mask.answer), guesses)
    (console or escaping.console()).print(numbers, *([masks] if report.filled else []))


def _results(facts: Report) -> list[Row]:
    """Return the rows on loss and accuracy, each with a comparison to guessing."""
    gap = facts.entropy - facts.mlm_loss
    verdict = f"{abs(gap):.2f} nats {'under' if gap > 0 else 'still over'} the unigram entropy"
    rows = [
        ("MLM loss", f"{facts.mlm_loss:.3f} nats", verdict),
        ("MLM accuracy", _percent(facts.mlm_accuracy), f"on {facts.mlm_targets:,} masked tokens"),
    ]
    if (accuracy := facts.pair_accuracy) is not None and facts.pair_count:
        margin = 1.96 * math.sqrt(accuracy * (1 - accuracy) / facts.pair_count)
        verdict = "better than chance" if accuracy - margin > 0.5 else "no better than chance"
        remark = f"on {facts.pair_count:,} pairs (± {100 * margin:.1f} points): {verdict}"
        rows.append((f"{facts.loss.upper()} accuracy", _percent(accuracy), remark))
    if facts.rtd is not None:
        loss, accuracy, share = facts.rtd
        gap = _entropy(share) - loss
        verdict = f"{abs(gap):.3f} nats {'under' if gap > 0 else 'over'} knowing their share alone"
        rows.append(("RTD loss", f"{loss:.3f} nats", verdict))
        remark = f"finding none would be right for {_percent(1 - share)}"
        rows.append(("RTD accuracy", _percent(accuracy), remark))
    return rows


def _entropy(share: float) -> float:
    """Return the entropy in nats of a share: the loss of a constant prediction of it."""
    return -sum(p * math.log(p) for p in (share, 1 - share) if p)


def _data(facts: Report) -> list[Row]:
    """Return the rows on text, vocabulary, padding, masks and pairs."""
    validation = facts.validation_documents
    fits = "fits" if facts.unknown_share < 0.01 else "does **not** fit"
    rows = [
        ("training text", f"{facts.tokens:,} tokens", f"{facts.documents:,} documents"),
        ("validation text", f"{facts.validation_tokens:,} tokens", f"{validation:,} documents"),
        ("vocabulary", f"{facts.vocab_size:,} pieces", f"{fits} the text"),
        ("[UNK]", _percent(facts.unknown_share, 3), "of the tokens; it should be less than 1 %"),
        ("padding", _percent(facts.padding_share), "of the positions in a batch"),
        ("masks", f"{facts.masks_per_row:.1f}", "per row"),
    ]
    if facts.pair_balance is not None:
        negative = "B is from elsewhere" if facts.loss == "nsp" else "the order is swapped"
        remark = f"where {negative}; about half is right"
        rows.append(("pairs", _percent(facts.pair_balance), remark))
        rows.append(("left out", _percent(facts.dropped_share), "of all examples, for the balance"))
    return rows


def _cost(facts: Report) -> list[Row]:
    """Return the rows on parameters, time, speed and memory."""
    waited: list[Row] = []
    if facts.waiting_share is not None:
        waited = [("waiting", _percent(facts.waiting_share), "of the steps' time, for batches")]
    return [
        ("parameters", f"{facts.parameters:,}", ""),
        ("steps", f"{facts.steps:,}", f"in {clock(facts.wall_seconds)}"),
        ("speed", f"{facts.tokens_per_second:,.0f} tokens/s", "padding not counted"),
        *waited,
        ("attention", "in training", facts.attention),
        ("memory", machine.gibibytes(facts.peak_memory), "at the peak"),
    ]


def _origin(facts: Report) -> list[Row]:
    """Return the rows on date, machine, versions and settings, to repeat the run."""
    return [
        ("date", facts.date),
        ("machine", machine.described(facts.machine)),
        ("backend", facts.backend),
        ("versions", ", ".join(f"{name} {version}" for name, version in facts.versions.items())),
        *((key, markdown(repr(value))) for key, value in facts.settings.items()),
    ]


def _guesses(mask: FilledMask) -> str:
    """Return the tokens guessed for a mask with their shares; the right one is bold."""
    shown = [(f"{markdown(token)} {_percent(share)}", token) for token, share in mask.guesses]
    return ", ".join(f"**{text}**" if token == mask.answer else text for text, token in shown)


def _percent(share: float, digits: int = 1) -> str:
    """Return a share as a percentage with `digits` decimals."""
    return f"{100 * share:.{digits}f} %"


def markdown_table(rows: Sequence[Row], head: Row = ("measure", "value", "remark")) -> list[str]:
    """Return the lines of a Markdown table."""
    return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]


# === Facts of a report ===


_RTD = ("rtd_loss", "rtd_accuracy", "rtd_share")
_FILLED = 10
_SHORTEST, _LONGEST = 8, 40  # pieces of a sentence that is shown


def examine(
    recipe: PretrainRecipe,
    folder: PretrainFolder,
    task: Task,
    corpora: TrainingCorpora,
    *,
    command: str,
    seconds: float,
    peak_memory: int | None,
) -> Report:
    """Measure the model on validation documents, and read the logs of the run."""
    tokenizer, train, validation = corpora.tokenizer, corpora.train, corpora.validation
    examples = corpora.examples(recipe, validation=True)
    batches = evaluation_batches(recipe, examples)
    compile_to_evaluate(recipe, task)
    measured = task.evaluate(dataset(examples, steps=batches), return_dict=True, verbose=0)
    learned_from = corpora.examples(recipe)
    statistics = batch_statistics(learned_from)
    if recipe.packed_length:
        statistics |= batch_statistics(apply_packing(recipe, learned_from))
    measured_on = examples.statistics(epoch=0, batches=batches)
    entropy = pretrain_setup.entropy(validation.tokens, tokenizer.special_ids)
    speeds = MetricsLog(folder.training.speed).records()
    # Logs of an earlier version lack it.
    waiting = [record["waiting_share"] for record in speeds if "waiting_share" in record]
    pair = recipe.loss if recipe.loss in PAIR_LOSSES else None
    return Report(
        recipe=recipe.name,
        command=command,
        date=datetime.date.today().isoformat(),
        backend=keras.backend.backend(),
        versions=machine.versions(),
        machine=machine.facts(),
        settings={
            name: value
            for name, value in with_changes(recipe.values(), folder.run).items()
            # A prepared corpus was made with values of its own.
            if name == "corpus" or not (corpora.is_prepared and name in TEXT_VALUES)
        },
        documents=train.num_documents,
        tokens=train.num_tokens,
        validation_documents=validation.num_documents,
        validation_tokens=validation.num_tokens,
        vocab_size=tokenizer.vocab_size,
        unknown_share=measured_on["unknown_share"],
        padding_share=statistics["padding_share"],
        masks_per_row=statistics["masks_per_row"],
        pair_balance=statistics.get(f"{pair}_share"),
        dropped_share=statistics["dropped_share"],
        entropy=entropy,
        cross_entropy=pretrain_setup.cross_entropy(
            train.tokens, validation.tokens, tokenizer.special_ids, tokenizer.vocab_size
        ),
        mlm_loss=measured.get("mlm_loss", measured["loss"]),
        mlm_accuracy=measured["mlm_accuracy"],
        mlm_targets=round(measured_on["masks_per_row"] * batches * examples.batch_size),
        loss=recipe.loss,
        pair_accuracy=measured[f"{pair}_accuracy"] if pair else None,
        pair_count=batches * examples.batch_size if pair else 0,
        rtd=tuple(measured[name] for name in _RTD) if recipe.loss == "rtd" else None,
        parameters=task.count_params(),
        steps=recipe.steps,
        tokens_per_second=float(np.median([record["tokens_per_second"] for record in speeds])),
        waiting_share=float(np.median(waiting)) if waiting else None,
        wall_seconds=seconds,
        peak_memory=peak_memory,
        attention=task.encoder.describe_kernels()["training"],
        filled=fill_validation_masks(task, tokenizer, validation, recipe.sequence_length),
    )


def fill_validation_masks(
    task: Task, tokenizer: Tokenizer, validation: Corpus, max_length: int
) -> list[FilledMask]:
    """Mask a whole word in each of ten validation sentences; return the best predictions."""
    room = max_length - len(("[CLS]", "[SEP]"))
    chosen = list(_maskable(validation, tokenizer, min(_LONGEST, room)))
    texts = [text for text, _ in chosen]
    if not texts:
        return []
    fills = Predictor(task, tokenizer).fill_mask(texts, top_k=5)
    return [
        FilledMask(
            text,
            answer,
            [(_shown(tokenizer, guess.token_id), guess.score) for guess in masks[0]],
        )
        for (text, answer), masks in zip(chosen, fills, strict=True)
    ]


def _shown(tokenizer: Tokenizer, token_id: int) -> str:
    """Return a token for people: that of WordPiece as it is, of other models its text.

    A token of white space alone is "(space)".
    """
    if tokenizer.lowercase is not None:
        return tokenizer.id_to_token(token_id)
    return tokenizer.decode([token_id], skip_special_tokens=False).strip() or "(space)"


def _is_word(text: str) -> bool:
    """Return whether a text has letters and their marks, and nothing else."""
    return text[:1].isalpha() and all(
        character.isalpha() or unicodedata.category(character).startswith("M") for character in text
    )


def _maskable(corpus: Corpus, tokenizer: Tokenizer, longest: int) -> Iterator[tuple[str, str]]:
    """Yield texts with one [MASK] and the original word, from random places of the corpus."""
    rng = np.random.default_rng(0)
    num_texts = 0
    for sentence in rng.permutation(corpus.num_sentences):
        start, end = corpus.sentence_starts[sentence : sentence + 2]
        ids = np.asarray(corpus.tokens[start:end]).astype(int)
        if not min(_SHORTEST, longest) <= len(ids) <= longest or tokenizer.unk_id in ids:
            continue
        continued = np.append(tokenizer.continuation[ids][1:], False)
        words = [_shown(tokenizer, token) for token in ids.tolist()]
        whole = [
            place
            for place, word in enumerate(words)
            if _is_word(word) and not continued[place] and not tokenizer.continuation[ids[place]]
        ]
        if not whole:
            continue
        place = int(rng.choice(whole))
        answer = words[place]
        ids[place] = tokenizer.mask_id
        yield tokenizer.decode(ids.tolist(), skip_special_tokens=False), answer
        num_texts += 1
        if num_texts == _FILLED:
            return
