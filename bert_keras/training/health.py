"""Examining a trained model on held-out documents: the facts of its report."""

from __future__ import annotations

import dataclasses
import datetime
import importlib.metadata
from collections.abc import Iterator

import keras
import numpy as np

from bert_keras.data import Corpus, dataset
from bert_keras.features import PAIR_LOSSES
from bert_keras.models import Task
from bert_keras.predictor import Predictor
from bert_keras.resume import MetricsLog
from bert_keras.tokenizers import Tokenizer
from bert_keras.training import machine, unigram
from bert_keras.training.corpora import TrainingCorpora, evaluation_batches, rows_of, seen_in
from bert_keras.training.recipe import PretrainRecipe
from bert_keras.training.report import FilledMask, Report
from bert_keras.training.run_folder import TEXT_VALUES, RunFolder
from bert_keras.training.values import JIT

_PACKAGES = ("bert-keras", "keras", "tensorflow", "jax", "torch", "numpy", "tokenizers")
_RTD = ("rtd_loss", "rtd_accuracy", "rtd_share")
_FILLED = 10
_SHORTEST, _LONGEST = 8, 40  # pieces of a sentence that is shown


def versions() -> dict[str, str]:
    """Versions of the packages that a run depends on, where installed."""
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def examine(
    recipe: PretrainRecipe,
    folder: RunFolder,
    task: Task,
    corpora: TrainingCorpora,
    *,
    command: str,
    seconds: float,
    peak_memory: int | None,
) -> Report:
    """Measures the model on held-out documents and gathers what the run has logged."""
    tokenizer, train, held_out = corpora.tokenizer, corpora.train, corpora.held_out
    examples = corpora.examples(recipe, held_out=True)
    batches = evaluation_batches(recipe, examples)
    if not task.compiled:  # but a view of it
        task.compile(**task.loss_and_metrics(), jit_compile=JIT[recipe.jit_compile])
    measured = task.evaluate(dataset(examples, steps=batches), return_dict=True, verbose=0)
    learned_from = corpora.examples(recipe)
    seen = seen_in(learned_from)
    if recipe.packed_length:
        seen |= seen_in(rows_of(recipe, learned_from))
    measured_on = examples.statistics(epoch=0, batches=batches)
    entropy = unigram.entropy(held_out.tokens, tokenizer.special_ids)
    speeds = MetricsLog(folder.speed).records()
    # A run that an earlier version began has reports without it.
    waiting = [record["waiting_share"] for record in speeds if "waiting_share" in record]
    pair = recipe.loss if recipe.loss in PAIR_LOSSES else None
    return Report(
        recipe=recipe.name,
        command=command,
        date=datetime.date.today().isoformat(),
        backend=keras.backend.backend(),
        versions=versions(),
        machine=machine.facts(),
        settings={
            name: value
            for name, value in dataclasses.asdict(recipe).items()
            # A prepared corpus was made with values of its own.
            if name == "corpus" or not (corpora.is_prepared and name in TEXT_VALUES)
        },
        documents=train.num_documents,
        tokens=train.num_tokens,
        held_out_documents=held_out.num_documents,
        held_out_tokens=held_out.num_tokens,
        vocab_size=tokenizer.vocab_size,
        unknown_share=measured_on["unknown_share"],
        padding_share=seen["padding_share"],
        masks_per_row=seen["masks_per_row"],
        pair_balance=seen.get(f"{pair}_share"),
        dropped_share=seen["dropped_share"],
        entropy=entropy,
        cross_entropy=unigram.cross_entropy(
            train.tokens, held_out.tokens, tokenizer.special_ids, tokenizer.vocab_size
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
        filled=fill_held_out(task, tokenizer, held_out, recipe.sequence_length),
    )


def fill_held_out(
    task: Task, tokenizer: Tokenizer, held_out: Corpus, max_length: int
) -> list[FilledMask]:
    """Ten held-out sentences, a whole word masked in each, with the model's best guesses."""
    room = max_length - len(("[CLS]", "[SEP]"))
    chosen = list(_maskable(held_out, tokenizer, min(_LONGEST, room)))
    texts = [text for text, _ in chosen]
    if not texts:
        return []
    fills = Predictor(task, tokenizer).fill_mask(texts, top_k=5)
    return [
        FilledMask(text, answer, [(guess.token, guess.score) for guess in masks[0]])
        for (text, answer), masks in zip(chosen, fills, strict=True)
    ]


def _maskable(corpus: Corpus, tokenizer: Tokenizer, longest: int) -> Iterator[tuple[str, str]]:
    """Texts with one [MASK] and the word that stood there, from all over the corpus."""
    rng = np.random.default_rng(0)
    found = 0
    for sentence in rng.permutation(corpus.num_sentences):
        start, end = corpus.sentence_starts[sentence : sentence + 2]
        ids = np.asarray(corpus.tokens[start:end]).astype(int)
        if not min(_SHORTEST, longest) <= len(ids) <= longest or tokenizer.unk_id in ids:
            continue
        continued = np.append(tokenizer.continuation[ids][1:], False)
        words = [tokenizer.id_to_token(token) for token in ids]
        whole = [
            place
            for place, word in enumerate(words)
            if word.isalpha() and not continued[place] and not tokenizer.continuation[ids[place]]
        ]
        if not whole:
            continue
        place = int(rng.choice(whole))
        answer = words[place]
        ids[place] = tokenizer.mask_id
        yield tokenizer.decode(ids.tolist(), skip_special_tokens=False), answer
        found += 1
        if found == _FILLED:
            return
