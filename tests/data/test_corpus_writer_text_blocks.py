"""Blocks of text: where they are cut, and the processes that tokenise them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bert_keras.data import corpus_writer as module
from bert_keras.data.corpus_writer import (
    WINDOW,
    EncodedBlock,
    TextBlock,
    encode_block,
    encode_blocks,
    text_blocks,
)
from bert_keras.errors import ResourceError
from bert_keras.tokenizers import Tokenizer

TOKENIZER = Tokenizer(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##c", "."))


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 12)


def _even(index: int) -> str:
    return "odd" if index % 2 else "even"


def test_blocks_keep_order_within_each_split() -> None:
    documents = [["aaaa", "bbbb"], ["xxxx"], ["cccc", "dd"], [], ["ee"], ["yyyy", "zzzz"], []]
    assert list(text_blocks(documents, _even)) == [
        TextBlock("even", ["aaaa", "bbbb", "cccc"], [2]),
        TextBlock("odd", ["xxxx", "yyyy", "zzzz"], [1, 1]),
        TextBlock("even", ["dd", "ee"], [1, 2, 2]),
        TextBlock("odd", [], [0]),
    ]


def test_a_long_document_goes_on_in_the_next_block() -> None:
    found = list(text_blocks([["aaaaa"] * 5, ["b"]], lambda _: "all"))
    assert [(block.texts, block.ends) for block in found] == [
        (["aaaaa"] * 2, []),
        (["aaaaa"] * 2, []),
        (["aaaaa", "b"], [1, 2]),
    ]
    assert list(text_blocks([], _even)) == []


def test_empty_sentences_fill_a_block_too() -> None:
    found = list(text_blocks([[""] * 30], lambda _: "all"))
    assert [len(block.texts) for block in found] == [12, 12, 6]


def test_encode() -> None:
    tokens, lengths, text_bytes = encode_block(TOKENIZER, ["a bc é.", "", "\ud800", "[SEP]"])
    assert tokens.tolist() == [5, 6, 7, 1, 8, 1, 1, 1]
    assert lengths.tolist() == [5, 0, 0, 3]
    assert text_bytes == 8 + 3 + 5


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

    monkeypatch.setattr(module, "encode_block", encode_here)
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
from bert_keras.data.corpus_writer import TextBlock, encode_blocks
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
