"""Processes that tokenise blocks of text, and the line about one that gives nothing."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from bert_keras.data import corpus_workers
from bert_keras.data.corpus_workers import TextBlock, encode_block, encode_blocks
from bert_keras.errors import ResourceError
from bert_keras.tokenizers import Tokenizer

TOKENIZER = Tokenizer(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abc"))
_BLOCKS = [TextBlock("train", [f"{'a ' * number}b"], [1]) for number in range(20)]


def _children() -> list[int]:
    """Return the pids of the workers of this process."""
    return [child.pid for child in multiprocessing.active_children() if child.pid]


def test_blocks_come_in_their_order_and_equal_those_of_one_process() -> None:
    expected = [encode_block(TOKENIZER, block.texts) for block in _BLOCKS]
    for workers in (1, 2):
        made = list(encode_blocks(_BLOCKS, TOKENIZER, workers))
        assert [block for block, _ in made] == _BLOCKS
        for (_, encoded), other in zip(made, expected, strict=True):
            assert encoded.tokens.tolist() == other.tokens.tolist()
            assert encoded.lengths.tolist() == other.lengths.tolist() == [len(other.tokens)]
            assert encoded.text_bytes == other.text_bytes


def test_a_worker_that_gives_nothing_is_named_and_awaited(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(corpus_workers, "PATIENCE", 0.2)

    def wake(pid: int) -> None:
        """Let a stopped worker go on when the line about it is there."""
        while "still waiting" not in caplog.text:
            time.sleep(0.02)
        os.kill(pid, signal.SIGCONT)

    def source() -> Iterator[TextBlock]:
        """Yield a block, and stop the worker that has it."""
        yield _BLOCKS[0]
        while not _children():
            time.sleep(0.01)
        os.kill(_children()[0], signal.SIGSTOP)
        threading.Thread(target=wake, args=_children()).start()

    with caplog.at_level(logging.WARNING):
        ((block, encoded),) = encode_blocks(source(), TOKENIZER, 2)
    assert block is _BLOCKS[0]
    assert encoded.tokens.tolist() == encode_block(TOKENIZER, block.texts).tokens.tolist()


def test_the_lines_about_a_block_that_is_awaited() -> None:
    line = corpus_workers._waiting_for(7, [2, 11, 6, 12, 7], 61.4)
    assert line.startswith("worker 2 has given nothing for 61 s (pid 12); still waiting")
    line = corpus_workers._waiting_for(8, [1, 11, 6, 0, 0], 60.0)
    assert line == "no worker has begun block 8 of the text for 60 s (pids: 11); still waiting"


def test_a_worker_that_is_killed_is_one_message() -> None:
    def source() -> Iterator[TextBlock]:
        """Yield blocks until a worker has started, and kill it."""
        yield _BLOCKS[0]
        while not _children():
            yield _BLOCKS[1]
        os.kill(_children()[0], signal.SIGKILL)
        yield from _BLOCKS

    with pytest.raises(ResourceError, match="A worker process was killed"):
        list(encode_blocks(source(), TOKENIZER, 2))
