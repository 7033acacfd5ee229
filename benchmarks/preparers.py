"""Ours and the others, each making tokens of a text file, once for a round.

Ours does all that a corpus needs: reads the file, splits paragraphs into sentences, tokenises them
and writes the token store. The others tokenise paragraphs that lie in memory, and do no more. All
have the same vocabulary, and as many processors as they like.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.contest import untuned

Round = Callable[[], dict[str, float]]
_BATCH = 1_000  # paragraphs given to a peer at once


def ours(file: str, tokenizer: str, workers: int) -> Round:
    """`data.write` of `data.read`, as `bert-keras prepare` does it.

    Args:
        file: the text, a paragraph per line, a blank line between documents.
        tokenizer: a folder.
        workers: processes that tokenise.
    """
    from bert_keras import Tokenizer, data

    def run() -> dict[str, float]:
        opened = Tokenizer.from_preset(tokenizer)  # anew: it remembers the words that it has seen
        with tempfile.TemporaryDirectory() as folder:
            begin = time.perf_counter()
            documents = data.read(file)
            stores = data.write(Path(folder, "corpus"), documents, opened, workers=workers)
            seconds = time.perf_counter() - begin
            return figures(file, seconds, sum(store.num_tokens for store in stores.values()))

    return run


def tokenizers(file: str, tokenizer: str) -> Round:
    """The library's own batch encoding, without offsets, which it shares among processors."""
    import tokenizers as library

    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    opened = library.Tokenizer.from_file(str(Path(tokenizer, "tokenizer.json")))
    opened.no_truncation()
    opened.no_padding()
    batches = list(_batches(file))

    def run() -> dict[str, float]:
        tokens, begin = 0, time.perf_counter()
        for batch in batches:
            found = opened.encode_batch_fast(batch, add_special_tokens=False)
            tokens += sum(map(len, found))
        return figures(file, time.perf_counter() - begin, tokens)

    return run


def keras_hub(file: str, tokenizer: str, *, masks: bool = False) -> Round:
    """KerasHub's `BertTokenizer`, mapped over a `tf.data.Dataset`.

    Args:
        file: the text.
        tokenizer: a folder.
        masks: whether its `BertMaskedLMPreprocessor` is, which also packs rows of 128 tokens and
            masks them, and cuts what is longer.
    """
    import keras_hub
    import tensorflow as tf

    vocabulary = Path(tokenizer, "vocab.txt").read_text(encoding="utf-8").splitlines()
    made: Any = keras_hub.models.BertTokenizer(vocabulary=vocabulary, lowercase=True)
    if masks:
        made = keras_hub.models.BertMaskedLMPreprocessor(made, sequence_length=128)
    batches = list(_batches(file))

    def run() -> dict[str, float]:
        tokens, begin = 0, time.perf_counter()
        lines = tf.data.Dataset.from_generator(
            lambda: iter(batches), output_signature=tf.TensorSpec((None,), tf.string)
        )
        for found in untuned(lines.map(made, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)):
            if masks:
                tokens += int(tf.math.count_nonzero(found[0]["padding_mask"]))
            else:
                tokens += int(found.flat_values.shape[0])
        return figures(file, time.perf_counter() - begin, tokens)

    return run


def figures(file: str, seconds: float, tokens: int) -> dict[str, float]:
    """Of a round that took these seconds."""
    megabytes = Path(file).stat().st_size / 1e6
    return {
        "seconds": seconds,
        "megabytes_per_second": megabytes / seconds,
        "tokens_per_second": tokens / seconds,
        "tokens": tokens,
    }


def _batches(file: str) -> Iterator[list[str]]:
    lines = Path(file).read_text(encoding="utf-8").split("\n")
    paragraphs = [line for line in lines if line.strip()]
    for start in range(0, len(paragraphs), _BATCH):
        yield paragraphs[start : start + _BATCH]
