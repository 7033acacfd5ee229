"""Processes that tokenise blocks of text, and the line about one that gives nothing."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bert_keras.data import corpus_workers
from bert_keras.data.corpus_workers import (
    WINDOW,
    EncodedBlock,
    TextBlock,
    encode_block,
    encode_blocks,
)
from bert_keras.errors import ResourceError
from bert_keras.tokenizers import Tokenizer

TOKENIZER = Tokenizer(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##c", "."))
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


def test_encode() -> None:
    tokens, lengths, text_bytes, coverage = encode_block(
        TOKENIZER, ["a bc é.", "", "\ud800", "[SEP]"]
    )
    assert tokens.tolist() == [5, 6, 7, 1, 8, 1, 1, 1]
    assert lengths.tolist() == [5, 0, 0, 3]
    assert text_bytes == 8 + 3 + 5
    assert coverage == TOKENIZER.coverage(["a bc é.", "", "\ud800", "[SEP]"])


def _source(number: int, taken: list[int]) -> Iterator[TextBlock]:
    """Yield blocks of text, and record the number of each block that was taken."""
    for index in range(number):
        taken.append(index)
        yield TextBlock("all", ["a"] * (index % 7) + ["b c."], [1])


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_order_and_few_are_on_their_way(workers: int) -> None:
    """Blocks come in order, and the number of waiting blocks is bounded."""
    taken: list[int] = []
    for index, (block, encoded) in enumerate(encode_blocks(_source(50, taken), TOKENIZER, workers)):
        assert len(block.texts) == index % 7 + 1
        assert encoded.lengths.tolist() == [1] * (index % 7) + [3]
        assert len(taken) - index <= (WINDOW * workers if workers > 1 else 1)
    assert len(taken) == 50


def test_this_process_takes_what_others_have_no_time_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The main process also tokenises blocks if the workers are busy."""
    here: list[int] = []

    def encode_here(tokenizer: Tokenizer, texts: list[str]) -> EncodedBlock:
        here.append(len(texts))
        return encode_block(tokenizer, texts)

    monkeypatch.setattr(corpus_workers, "encode_block", encode_here)
    found = list(encode_blocks(_source(20, []), TOKENIZER, 2))
    assert [len(block.texts) for block, _ in found] == [index % 7 + 1 for index in range(20)]
    assert 0 < len(here) < 20


def test_a_killed_worker_is_an_error_not_a_hang() -> None:
    def source() -> Iterator[TextBlock]:
        for index, block in enumerate(_source(1000, [])):
            if index == 2:
                os.kill(multiprocessing.active_children()[0].pid or 0, signal.SIGKILL)
            yield block

    with pytest.raises(ResourceError, match="A worker process was killed"):
        list(encode_blocks(source(), TOKENIZER, 2))


def test_an_error_in_the_text_ends_the_workers() -> None:
    def source() -> Iterator[TextBlock]:
        yield from _source(5, [])
        raise KeyError("text")

    with pytest.raises(KeyError, match="text"):
        list(encode_blocks(source(), TOKENIZER, 2))
    assert not multiprocessing.active_children()


_SCRIPT = """
import multiprocessing, time
from bert_keras.data.corpus_workers import TextBlock, encode_blocks
from bert_keras.tokenizers import Tokenizer

def source():
    for _ in range(6):
        yield TextBlock("all", ["a"], [1])
    print(*(child.pid for child in multiprocessing.active_children()), flush=True)
    time.sleep(600)

if __name__ == "__main__":
    tokenizer = Tokenizer(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"))
    list(encode_blocks(source(), tokenizer, 3))
"""


def _runs(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc of the platform")
def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(_SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, text=True, env=environment
    ) as parent:
        assert parent.stdout is not None
        workers = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(workers) == 2
        parent.kill()
    deadline = time.monotonic() + 60
    while any(map(_runs, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(_runs, workers))
