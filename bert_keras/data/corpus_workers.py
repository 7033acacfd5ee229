"""Processes that tokenise blocks of text for a corpus. The number of processes changes no byte."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bert_keras.data.corpus import token_dtype
from bert_keras.errors import ResourceError
from bert_keras.tokenizers.vocabulary_coverage import Coverage

if TYPE_CHECKING:
    from bert_keras.tokenizers import Tokenizer

_log = logging.getLogger(__name__)

# Blocks per worker that are submitted and not yet written: if the first one is slow, the workers
# go on with the others.
WINDOW = 8
# Blocks per worker process that wait for it, so that it has work while this process tokenises one.
_WAITING = 6
# Seconds without a result after which a worker is named. A block of text takes less than one.
PATIENCE = 60.0


@dataclass
class TextBlock:
    """Block of sentences that follow each other in one split of the documents.

    Attributes:
        split: name of the split: "train" or "validation".
        texts: the sentences.
        ends: number of sentences of the block before the end of each document that ends in it.
    """

    split: str
    texts: list[str] = field(default_factory=list[str])
    ends: list[int] = field(default_factory=list[int])


class EncodedBlock(NamedTuple):
    """Token ids of a block of sentences."""

    tokens: np.ndarray  # ids of all sentences, of dtype `token_dtype`: [tokens]
    lengths: np.ndarray  # tokens of each sentence: int64 [sentences]
    text_bytes: int  # size of the text in UTF-8
    coverage: Coverage  # numbers of words and characters, and of those in [UNK]


def encode_block(tokenizer: Tokenizer, texts: list[str]) -> EncodedBlock:
    """Tokenise the sentences of a block."""
    ids, lengths = tokenizer.ragged_ids(texts)
    tokens = ids.astype(token_dtype(tokenizer.vocab_size))
    text_bytes = len("".join(texts).encode(errors="surrogatepass"))
    return EncodedBlock(tokens, lengths, text_bytes, tokenizer.coverage(texts, (ids, lengths)))


def encode_blocks(
    source: Iterable[TextBlock], tokenizer: Tokenizer, workers: int
) -> Generator[tuple[TextBlock, EncodedBlock]]:
    """Tokenise blocks in `workers` processes, including this one, and yield them in order.

    This process reads the text. It also tokenises a block if the others have enough waiting, for
    example while they start. A worker that gives nothing for `PATIENCE` seconds is named in the
    log, and this process goes on waiting for it.

    Raises:
        ResourceError: a worker was killed or could not start.
    """
    if workers == 1:
        for block in source:
            yield block, encode_block(tokenizer, block.texts)
        return
    # Processes are spawned, because a fork of a process with a framework's threads may hang.
    context = multiprocessing.get_context("spawn")
    # Number of workers that have started; then the pid of each, and the block that it works on.
    places = context.Array("q", 1 + 2 * (workers - 1))
    arguments = (tokenizer, places)
    pool = ProcessPoolExecutor(workers - 1, context, _start_worker, arguments)
    pending: deque[tuple[TextBlock, Future[EncodedBlock], int]] = deque()
    try:
        for number, block in enumerate(source, 1):
            if sum(not encoded.done() for _, encoded, _ in pending) < _WAITING * (workers - 1):
                future = pool.submit(_encode_in_worker, number, block.texts)
            else:
                future = _done(encode_block(tokenizer, block.texts))
            pending.append((block, future, number))
            while pending and (pending[0][1].done() or len(pending) == WINDOW * workers):
                yield _first(pending, places)
        while pending:
            yield _first(pending, places)
    except BrokenProcessPool as error:
        raise ResourceError(
            "A worker process was killed, perhaps because memory ran out, or could not start "
            f'(a script needs `if __name__ == "__main__":`). Received: workers={workers}. '
            "Pass a smaller number of workers."
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _first(
    pending: deque[tuple[TextBlock, Future[EncodedBlock], int]], places: Any
) -> tuple[TextBlock, EncodedBlock]:
    """Remove the first block, wait for its token ids, and return both."""
    block, encoded, number = pending.popleft()
    start = monotonic()
    while True:
        try:
            return block, encoded.result(timeout=PATIENCE)
        except FutureTimeoutError:
            if encoded.done():  # the error is of the worker
                raise
            _log.warning("%s", _waiting_for(number, list(places), monotonic() - start))


def _waiting_for(number: int, places: list[int], seconds: float) -> str:
    """Return the line about the worker that works on a block, or about a block that none has.

    Args:
        number: number of the block.
        places: values of the array that the workers share.
        seconds: seconds for which this process has waited.
    """
    pids, blocks = places[1::2], places[2::2]
    if number not in blocks:
        there = ", ".join(str(pid) for pid in pids if pid) or "none has started"
        return (
            f"no worker has begun block {number} of the text for {seconds:.0f} s (pids: {there}); "
            "still waiting"
        )
    worker = blocks.index(number)
    return (
        f"worker {worker + 1} has given nothing for {seconds:.0f} s (pid {pids[worker]}); still "
        "waiting. If it does not work any more, end it: the program then stops with a message."
    )


def _done(encoded: EncodedBlock) -> Future[EncodedBlock]:
    """Return a future of a block that is tokenised already."""
    future: Future[EncodedBlock] = Future()
    future.set_result(encoded)
    return future


# === In a worker process ===


_tokenizer: Tokenizer | None = None
_places: Any = None  # array that all workers share; see `encode_blocks`
_place = 0  # of this worker's pid in it


def _start_worker(tokenizer: Tokenizer, places: Any) -> None:
    """Prepare a worker process: keep the tokenizer, and end with the parent process."""
    global _tokenizer, _places, _place
    _tokenizer, _places = tokenizer, places
    with places.get_lock():
        _place = 1 + 2 * places[0]
        places[0] += 1
        places[_place] = os.getpid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this worker when its parent ends. A killed parent cannot end it, and it would wait."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


def _encode_in_worker(number: int, texts: list[str]) -> EncodedBlock:
    """Tokenise a block of this number in a worker process, with the tokenizer that it keeps."""
    assert _tokenizer is not None
    _places[_place + 1] = number
    return encode_block(_tokenizer, texts)
