"""Blocks of text, tokenised by worker processes and given back in order.

Only a few blocks are in memory at a time, and their borders do not depend on who tokenises them.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bert_keras.data.corpus import token_dtype
from bert_keras.errors import ResourceError

if TYPE_CHECKING:
    from bert_keras.tokenizers import Tokenizer

BLOCK = 2**20  # characters of text that are tokenised at once
WINDOW = 8  # blocks per worker that are on their way: while the first is slow the others go on
_WAITING = 6  # of them per worker process, which must not wait while this one tokenises a block


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
    sizes: dict[str, int] = defaultdict(int)
    for index, document in enumerate(documents):
        split = split_of(index)
        block = open_blocks.setdefault(split, Block(split))
        for text in document:
            block.texts.append(text)
            sizes[split] += len(text) + 1  # empty ones take room too
            if sizes[split] >= BLOCK:
                yield open_blocks.pop(split)
                block = open_blocks[split] = Block(split)
                sizes[split] = 0
        block.ends.append(len(block.texts))
    yield from open_blocks.values()


def encode(tokenizer: Tokenizer, texts: list[str]) -> Encoded:
    """The ids of a block's sentences."""
    ids, lengths = tokenizer.ragged_ids(texts)
    tokens = ids.astype(token_dtype(tokenizer.vocab_size))
    return Encoded(tokens, lengths, len("".join(texts).encode(errors="surrogatepass")))


def encode_all(
    source: Iterable[Block], tokenizer: Tokenizer, workers: int
) -> Generator[tuple[Block, Encoded], None, None]:
    """Tokenises blocks in `workers` processes, of which this is one; yields them in order.

    This one reads, and takes what the others, which take a while to start, have no time for.

    Raises:
        ResourceError: a worker was killed or could not start.
    """
    if workers == 1:
        for block in source:
            yield block, encode(tokenizer, block.texts)
        return
    # Spawned: a fork of a process that runs a framework's threads may hang.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers - 1, context, _start_worker, (tokenizer,))
    pending: deque[tuple[Block, Future[Encoded]]] = deque()
    try:
        for block in source:
            if sum(not encoded.done() for _, encoded in pending) < _WAITING * (workers - 1):
                future = pool.submit(_encode_in_worker, block.texts)
            else:
                future = _done(encode(tokenizer, block.texts))
            pending.append((block, future))
            while pending and (pending[0][1].done() or len(pending) == WINDOW * workers):
                first, encoded = pending.popleft()
                yield first, encoded.result()
        for block, encoded in pending:
            yield block, encoded.result()
    except BrokenProcessPool as error:
        raise ResourceError(
            "A worker process was killed, perhaps for want of memory, or could not start "
            '(a script needs `if __name__ == "__main__":`). Try fewer workers.'
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _done(encoded: Encoded) -> Future[Encoded]:
    future: Future[Encoded] = Future()
    future.set_result(encoded)
    return future


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
