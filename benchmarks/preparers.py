"""Contenders that tokenise a text file, once per round.

bert_keras prepares a corpus completely: it reads the file, splits paragraphs into sentences,
tokenises them and writes the token store. The other libraries only tokenise paragraphs that are
already in memory. All programs use the same vocabulary, and may use all processor cores.
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
_BATCH = 1_000  # paragraphs in each call of another library


def ours(file: str, tokenizer: str, workers: int) -> Round:
    """Prepare a contender that reads and writes a corpus as `bert-keras prepare` does.

    Args:
        file: path of the text file, with a paragraph per line and a blank line between documents.
        tokenizer: folder of the tokenizer.
        workers: number of processes that tokenise.
    """
    from bert_keras import Tokenizer, data

    def run() -> dict[str, float]:
        # A new tokenizer has an empty cache of words.
        opened = Tokenizer.from_preset(tokenizer)
        with tempfile.TemporaryDirectory() as folder:
            begin = time.perf_counter()
            documents = data.read(file)
            stores = data.write(Path(folder, "corpus"), documents, opened, workers=workers)
            seconds = time.perf_counter() - begin
            return figures(file, seconds, sum(store.num_tokens for store in stores.values()))

    return run


def tokenizers(file: str, tokenizer: str) -> Round:
    """Prepare a contender that encodes batches with the tokenizers library.

    The library encodes a batch in parallel threads. Offsets are not computed.

    Args:
        file: path of the text file.
        tokenizer: folder of the tokenizer.
    """
    import tokenizers as library

    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    opened = library.Tokenizer.from_file(str(Path(tokenizer, "tokenizer.json")))
    opened.no_truncation()
    opened.no_padding()
    batches = list(_batches(file))

    def run() -> dict[str, float]:
        tokens, begin = 0, time.perf_counter()
        for batch in batches:
            encodings = opened.encode_batch_fast(batch, add_special_tokens=False)
            tokens += sum(map(len, encodings))
        return figures(file, time.perf_counter() - begin, tokens)

    return run


def keras_hub(file: str, tokenizer: str, *, masks: bool = False) -> Round:
    """Prepare a contender that maps KerasHub's `BertTokenizer` over a `tf.data.Dataset`.

    Args:
        file: path of the text file.
        tokenizer: folder of the tokenizer.
        masks: whether to map `BertMaskedLMPreprocessor` instead. It also cuts paragraphs to rows
            of 128 tokens, and masks them.
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
        for tokenised in untuned(lines.map(made, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)):
            if masks:
                tokens += int(tf.math.count_nonzero(tokenised[0]["padding_mask"]))
            else:
                tokens += int(tokenised.flat_values.shape[0])
        return figures(file, time.perf_counter() - begin, tokens)

    return run


def figures(file: str, seconds: float, tokens: int) -> dict[str, float]:
    """Return the figures of a round.

    Args:
        file: path of the text file.
        seconds: duration of the round.
        tokens: number of tokens made in the round.
    """
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
