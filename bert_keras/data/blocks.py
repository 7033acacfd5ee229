"""Blocks of text, tokenised by worker processes and given back in order.

Only a few blocks are in memory at a time, and their borders do not depend on who tokenises them.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bert_keras.data.corpus import token_dtype
from bert_keras.errors import ResourceError

if TYPE_CHECKING:
    from bert_keras.tokenizers import Tokenizer

BLOCK = 2**20  # characters of text that are tokenised at once
WINDOW = 3  # blocks per worker that are on their way


@dataclass
class Block:
    """Sentences that follow each other in one split of the documents."""

    split: str
    texts: list[str] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)  # before which of the sentences documents end


class Encoded(NamedTuple):
    """The token ids of a block."""

    tokens: np.ndarray  # of token_dtype [tokens]
    lengths: np.ndarray  # int64 [sentences], in tokens
    text_bytes: int  # in UTF-8


def blocks(documents: Iterable[Iterable[str]], split_of: Callable[[int], str]) -> Iterator[Block]:
    """Packs documents into blocks of about `BLOCK` characters, each split on its own.

    Args:
        documents: of sentences. A long one goes on in the next block of its split.
        split_of: the split of a document, from its index.
    """
    open_blocks: dict[str, Block] = {}
    sizes: dict[str, int] = {}
    for index, document in enumerate(documents):
        split = split_of(index)
        for text in document:
            open_blocks.setdefault(split, Block(split)).texts.append(text)
            sizes[split] = sizes.get(split, 0) + len(text)
            if sizes[split] >= BLOCK:
                yield open_blocks.pop(split)
                sizes[split] = 0
        block = open_blocks.setdefault(split, Block(split))
        block.ends.append(len(block.texts))
    yield from open_blocks.values()


def encode(tokenizer: Tokenizer, texts: list[str]) -> Encoded:
    """The ids of a block's sentences."""
    ids = tokenizer.text_ids(texts)
    lengths = np.fromiter(map(len, ids), np.int64, len(ids))
    dtype = token_dtype(tokenizer.vocab_size)
    tokens = np.fromiter(chain.from_iterable(ids), dtype, int(lengths.sum()))
    return Encoded(tokens, lengths, len("".join(texts).encode(errors="surrogatepass")))


def encode_all(
    source: Iterable[Block], tokenizer: Tokenizer, workers: int
) -> Generator[tuple[Block, Encoded], None, None]:
    """Tokenises blocks in `workers` new processes, or for 1 in this one; yields them in order.

    Raises:
        ResourceError: a worker was killed or could not start.
    """
    if workers == 1:
        for block in source:
            yield block, encode(tokenizer, block.texts)
        return
    # Spawned: a fork of a process that runs a framework's threads may hang.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, _start_worker, (tokenizer,))
    pending: deque[tuple[Block, Future[Encoded]]] = deque()
    try:
        for block in source:
            pending.append((block, pool.submit(_encode_in_worker, block.texts)))
            if len(pending) == WINDOW * workers:
                first, encoded = pending.popleft()
                yield first, encoded.result()
        for block, encoded in pending:
            yield block, encoded.result()
    except BrokenProcessPool as error:
        raise ResourceError(
            f"One of {workers} workers was killed, perhaps for want of memory, or could not start "
            '(a script needs `if __name__ == "__main__":`). Try fewer workers.'
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


_tokenizer: Tokenizer | None = None  # of a worker process


def _start_worker(tokenizer: Tokenizer) -> None:
    global _tokenizer
    _tokenizer = tokenizer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A killed parent cannot end its workers, and they would wait for work for ever."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


def _encode_in_worker(texts: list[str]) -> Encoded:
    assert _tokenizer is not None
    return encode(_tokenizer, texts)
