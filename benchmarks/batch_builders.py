"""Builders of pretraining batches: bert_keras, and other libraries' collators on the same rows."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from bert_keras import Tokenizer
from bert_keras.data import Corpus, PretrainingExamples, py_dataset, tf_dataset

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


class Builder(NamedTuple):
    """A function that builds batches.

    Args:
        name: name in the table.
        whole: whether the builder starts from the token store. Otherwise it only masks rows that
            are already in memory.
        build: function that returns batch i.
    """

    name: str
    whole: bool
    build: Callable[[int], Any]


def synthetic(num_sentences: int) -> tuple[Corpus, Tokenizer]:
    """Return a random corpus with Zipf's word frequencies, and its tokenizer.

    A sentence has about 24 tokens, and a document 40 sentences.
    """
    rng = np.random.default_rng(0)
    words = [f"w{n}" for n in range(24_000)] + [f"##w{n}" for n in range(6_000)]
    tokenizer = Tokenizer([*SPECIALS, *words])
    chances = 1 / np.arange(1, len(words) + 1)
    lengths = np.clip(rng.lognormal(3.0, 0.6, num_sentences).astype(int), 1, 200)
    order = len(SPECIALS) + rng.permutation(len(words))
    tokens = order[rng.choice(len(words), lengths.sum(), p=chances / chances.sum())]
    sentences = [part.tolist() for part in np.split(tokens, np.cumsum(lengths)[:-1])]
    documents = (sentences[i : i + 40] for i in range(0, num_sentences, 40))
    return Corpus.from_ids(documents), tokenizer


def from_corpus(corpus: Corpus, tokenizer: Tokenizer, **sizes: Any) -> Iterator[Builder]:
    """Yield the builders of bert_keras that start from the token store.

    They do NSP pairs, truncation, packing and masking. There is one for each kind of masking, one
    for a `PyDataset` and one for a `tf.data.Dataset`.

    Args:
        corpus: the token store.
        tokenizer: tokenizer of the store.
        sizes: arguments of `PretrainingExamples`, such as `batch_size`.
    """
    for masking in ("token", "whole_word", "span"):
        examples = PretrainingExamples(corpus, tokenizer, masking=masking, **sizes)

        def build(i: int, examples: PretrainingExamples = examples) -> Any:
            return examples.batch(0, i % examples.num_batches(0))

        yield Builder(f"batch, {masking}", True, build)
    examples = PretrainingExamples(corpus, tokenizer, **sizes)
    reader = py_dataset(examples, repeat=True)
    yield Builder("py_dataset, token", True, lambda i: reader[i])
    try:
        stream = iter(tf_dataset(examples, repeat=True))
        yield Builder("tf_dataset, token", True, lambda _: next(stream))
    except ImportError as error:
        warnings.warn(f"tf_dataset is left out: {error}", stacklevel=1)


def masking_alone(examples: PretrainingExamples) -> Iterator[Builder]:
    """Yield the builders that only mask rows, each with the rows in its preferred form."""
    rows = _rows(examples)
    specials = np.isin(rows, examples.tokenizer.special_ids)
    count, size, length = rows.shape
    width = examples.masking.width(length)

    def mask(i: int) -> Any:
        raw = np.random.Philox(key=i).random_raw(size * width).reshape(size, width)
        return examples.masking(rows[i % count], ~specials[i % count], raw)

    yield Builder("masking alone", False, mask)
    for peer in (_transformers, _keras_hub):
        try:
            yield from peer(examples, rows, specials)
        except ImportError as error:
            warnings.warn(f"left out: {error}", stacklevel=1)


def _rows(examples: PretrainingExamples, most: int = 32) -> np.ndarray:
    """Return the first batches without masks: int32 [batches, batch_size, sequence_length]."""
    batches = []
    for i in range(min(most, examples.num_batches(0))):
        x, y, weights = examples.batch(0, i)
        rows, slots = np.nonzero(weights["mlm"])
        x["token_ids"][rows, x["mask_positions"][rows, slots]] = y["mlm"][rows, slots]
        batches.append(x["token_ids"])
    return np.stack(batches)


def _transformers(
    examples: PretrainingExamples, rows: np.ndarray, specials: np.ndarray
) -> Iterator[Builder]:
    """Yield DataCollatorForLanguageModeling of transformers for NumPy and PyTorch; it also pads."""
    from transformers import AutoTokenizer, DataCollatorForLanguageModeling

    with tempfile.TemporaryDirectory() as folder:
        examples.tokenizer.save_to_preset(folder)
        tokenizer = AutoTokenizer.from_pretrained(folder)
    lengths = (rows != examples.tokenizer.pad_id).sum(axis=2)
    features = [
        [
            {"input_ids": ids[:n].tolist(), "special_tokens_mask": flags[:n].astype(int).tolist()}
            for ids, flags, n in zip(*batch, strict=True)
        ]
        for batch in zip(rows, specials, lengths, strict=True)
    ]
    for kind in ("np", "pt"):
        collate = DataCollatorForLanguageModeling(tokenizer, return_tensors=kind)

        def build(i: int, collate: Callable[[list[Any]], Any] = collate) -> Any:
            return collate([dict(row) for row in features[i % len(features)]])

        yield Builder(f"transformers collator, {kind}", False, build)


def _keras_hub(
    examples: PretrainingExamples, rows: np.ndarray, specials: np.ndarray
) -> Iterator[Builder]:
    """Yield MaskedLMMaskGenerator of KerasHub, in a graph as in tf.data."""
    import keras_hub
    import tensorflow as tf

    del specials  # the generator takes the ids of special tokens instead
    tokenizer = examples.tokenizer
    masker = keras_hub.layers.MaskedLMMaskGenerator(
        vocabulary_size=tokenizer.vocab_size,
        mask_selection_rate=0.15,
        mask_selection_length=examples.masking.max_predictions_per_seq,
        mask_token_id=tokenizer.mask_id,
        unselectable_token_ids=list(tokenizer.special_ids),
    )
    tensors, graph = [tf.constant(batch) for batch in rows], tf.function(masker)

    def build(i: int) -> Any:
        return graph(tensors[i % len(tensors)])

    yield Builder("keras_hub mask generator", False, build)
