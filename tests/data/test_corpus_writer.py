"""Writing a corpus: the same bytes with any number of processes, and never half a corpus."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from bert_keras.data import (
    SPLIT_FOLDERS,
    Corpus,
    corpus_writer,
    read,
    require_vacant,
    split_of,
    write,
)
from bert_keras.data.corpus_writer import stride
from bert_keras.errors import DataError, ResourceError, UsageError
from bert_keras.tokenizers import Tokenizer

TOKENIZER = Tokenizer(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij", "##a", "."))
_REPO = Path(__file__).parents[2]


def _documents(number: int) -> Iterator[list[str]]:
    """Yield documents. Every seventh document and some sentences have no token."""
    rng = np.random.default_rng(0)
    for index in range(number):
        size = int(rng.integers(1, 40))
        sentences = [
            " ".join(rng.choice(list("abcdefghijz"), int(n))) for n in rng.integers(0, 9, size)
        ]
        yield ["\u200b", ""] if index % 7 == 3 else sentences


def _files(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files below a folder, by relative path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _sentences(corpus: Corpus, document: int) -> list[list[int]]:
    """Return the token ids of each sentence in a document."""
    starts = corpus.sentence_starts
    first, last = corpus.document_starts[document : document + 2]
    return [corpus.tokens[starts[i] : starts[i + 1]].tolist() for i in range(first, last)]


@pytest.mark.parametrize("validation_split", [0.0, 0.1, 0.5])
def test_the_stores_hold_the_documents(
    tmp_path: Path, validation_split: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_writer, "BLOCK", 200)
    corpora = write(tmp_path / "c", _documents(100), TOKENIZER, validation_split=validation_split)
    expected: dict[str, list[list[list[int]]]] = {"train": [], "validation": []}
    dropped = dict.fromkeys(expected, 0)
    for index, document in enumerate(_documents(100)):
        ids = [sentence for sentence in TOKENIZER.text_ids(document) if sentence]
        split = split_of(index, validation_split)
        dropped[split] += len(document) - len(ids)
        if ids:
            expected[split].append(ids)
    assert list(corpora) == (["train", "validation"] if validation_split else ["train"])
    for name, corpus in corpora.items():
        found = [_sentences(corpus, index) for index in range(corpus.num_documents)]
        assert found == expected[name]
        counts = corpus.manifest["counts"]
        assert counts["dropped_sentences"] == dropped[name] > 0
        assert counts["unknown_tokens"] == (corpus.tokens == TOKENIZER.unk_id).sum() > 0
        folder = tmp_path / "c" / SPLIT_FOLDERS[name]
        assert Corpus.open(folder, verify=True).fingerprint == corpus.fingerprint
    empty = [index for index in range(100) if index % 7 == 3]
    lost = {
        name: corpus.manifest["counts"]["dropped_documents"] for name, corpus in corpora.items()
    }
    assert sum(lost.values()) >= len(empty)
    assert Tokenizer.from_preset(tmp_path / "c") == TOKENIZER


def test_any_number_of_workers_writes_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_writer, "BLOCK", 500)
    for workers in (1, 2, 3):
        write(
            tmp_path / str(workers),
            _documents(150),
            TOKENIZER,
            validation_split=0.1,
            workers=workers,
        )
    files = _files(tmp_path / "1")
    assert len(files) == 4 + 2 * 4
    assert _files(tmp_path / "2") == files
    assert _files(tmp_path / "3") == files
    # The size of the blocks of text does not change the files either.
    monkeypatch.setattr(corpus_writer, "BLOCK", 3)
    write(tmp_path / "4", _documents(150), TOKENIZER, validation_split=0.1)
    assert _files(tmp_path / "4") == files


def test_shares() -> None:
    """The validation split takes every n-th document."""
    assert [stride(share) for share in (0, 0.02, 0.1, 0.3, 0.5)] == [0, 50, 10, 3, 2]
    for bad in (-0.1, 0.51, 1.0, float("nan")):
        with pytest.raises(ValueError, match=r"validation_split must be from 0 to 0.5. Received"):
            stride(bad)
    validation = [index for index in range(200) if split_of(index, 0.02) == "validation"]
    assert validation == [1, 51, 101, 151]
    assert all(split_of(index, 0) == "train" for index in range(100))
    assert [split_of(index, 0.5) for index in range(2)] == ["train", "validation"]


def test_two_documents_give_one_to_each(tmp_path: Path) -> None:
    """Even two documents give one to training and one to validation."""
    corpora = write(tmp_path / "c", [["a"], ["b"]], TOKENIZER)
    assert [corpus.num_documents for corpus in corpora.values()] == [1, 1]


@pytest.mark.parametrize(
    ("documents", "validation_split", "name"),
    [
        ([], 0.0, "train"),
        ([[""], ["\u200b"]], 0.0, "train"),
        ([["a", "b"]], 0.02, "validation"),
        ([["a"], ["\0"]], 0.02, "validation"),
        ([["\0"], ["a"]], 0.02, "train"),
    ],
)
def test_too_few_documents(
    tmp_path: Path, documents: list[list[str]], validation_split: float, name: str
) -> None:
    with pytest.raises(
        DataError,
        match=f"No document with .* split '{name}'. Received: {len(documents)} doc",
    ):
        write(tmp_path / "c", documents, TOKENIZER, validation_split=validation_split)
    assert list(tmp_path.iterdir()) == []


def test_bad_arguments(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"workers must be at least 1. Received: 0"):
        write(tmp_path / "c", [["a"]], TOKENIZER, workers=0)
    with pytest.raises(ValueError, match="validation_split"):
        write(tmp_path / "c", [["a"]], TOKENIZER, validation_split=2.0)
    assert list(tmp_path.iterdir()) == []


def test_origin_and_progress(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join("a b. C d." for _ in range(10)))
    calls: list[tuple[int, int | None, str]] = []
    corpora = write(
        *(tmp_path / "c", read(text), TOKENIZER), progress=lambda *call: calls.append(call)
    )
    assert calls == [(9, None, "documents"), (10, None, "documents")]
    for name, corpus in corpora.items():
        assert corpus.manifest["origin"]["layout"] == "text"
        assert corpus.manifest["origin"]["files"][0]["size"] == text.stat().st_size
        assert corpus.manifest["split"] == {
            "name": SPLIT_FOLDERS[name],
            "held_out": 0.02,
            "stride": 50,
        }


def test_a_corpus_is_never_written_over_unless_asked(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "corpus"
    write(folder, [["a"]], TOKENIZER, validation_split=0)
    before = _files(folder)
    with pytest.raises(
        UsageError, match=r"corpus: the folder holds a corpus already. Name another folder"
    ):
        write(folder, [["b"]], TOKENIZER, validation_split=0)
    with pytest.raises(DataError):
        write(folder, [], TOKENIZER, validation_split=0, overwrite=True)
    assert _files(folder) == before
    write(folder, [["b"], ["c"]], TOKENIZER, overwrite=True)
    assert _files(folder) != before
    assert [path.name for path in folder.parent.iterdir()] == ["corpus"]


@pytest.mark.parametrize("overwrite", [True, False])
def test_other_things_are_never_written_over(tmp_path: Path, overwrite: bool) -> None:
    cases = {"notes": ["notes.md"], "preset": ["vocab.txt", "tokenizer.json"], "mixed": ["x/y"]}
    for name, files in cases.items():
        for file in files:
            (tmp_path / name / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / file).write_text("mine")
    write(tmp_path / "both", [["a"]], TOKENIZER, validation_split=0)
    (tmp_path / "both" / "notes.md").write_text("mine")
    (tmp_path / "file").write_text("mine")
    before = _files(tmp_path)
    for name in (*cases, "both", "file"):
        with pytest.raises(UsageError, match=f"{name}: the folder for a corpus must be new"):
            write(tmp_path / name, [["a"]], TOKENIZER, validation_split=0, overwrite=overwrite)
        with pytest.raises(UsageError):
            require_vacant(tmp_path / name, overwrite)
    assert _files(tmp_path) == before


def test_an_empty_folder_and_a_link_to_one(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    write(tmp_path / "link", [["a"]], TOKENIZER, validation_split=0)
    assert Corpus.open(tmp_path / "empty" / "train").num_documents == 1
    assert (tmp_path / "link").is_symlink()


def test_an_error_in_the_documents_leaves_nothing(tmp_path: Path) -> None:
    def documents() -> Iterator[list[str]]:
        yield ["a"]
        raise DataError("text.txt:3: not UTF-8.")

    with pytest.raises(DataError, match=r"text\.txt:3"):
        write(tmp_path / "c", documents(), TOKENIZER)
    assert list(tmp_path.iterdir()) == []


def test_two_writers_of_one_folder(tmp_path: Path) -> None:
    part = tmp_path / ".tmp-c"
    part.mkdir()
    (part / "theirs").write_text("half")
    descriptor = os.open(tmp_path / ".c.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(ResourceError, match="another process is writing it"):
        write(tmp_path / "c", [["a"]], TOKENIZER, validation_split=0)
    assert (part / "theirs").read_text() == "half"
    os.close(descriptor)  # The system closes the file too when the process is killed.
    write(tmp_path / "c", [["a"]], TOKENIZER, validation_split=0)
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
    assert "theirs" not in _files(tmp_path / "c")


def test_a_full_disk(tmp_path: Path) -> None:
    """A full disk is reported, and nothing is left behind.

    A limit on the size of files stands in for the full disk.
    """
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(
            ResourceError, match=r"c: the corpus cannot be written: .*File too large"
        ) as caught:
            write(tmp_path / "c", [["a b c d"] * 10_000], TOKENIZER, validation_split=0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert isinstance(caught.value.__cause__, OSError)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResourceError, match=r"cannot be written: .*file"):
        write(tmp_path / "file" / "c", [["a"]], TOKENIZER, validation_split=0)


def test_failing_to_rename_restores_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "c", [["a"]], TOKENIZER, validation_split=0)
    before = _files(tmp_path)
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self.name == ".tmp-c":
            raise OSError(errno.EIO, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(ResourceError, match="Input/output error"):
        write(tmp_path / "c", [["b"]], TOKENIZER, validation_split=0, overwrite=True)
    assert _files(tmp_path) == before


_SCRIPT = """
import os, signal, sys
from pathlib import Path
from bert_keras import file_io
from bert_keras.data import write
from bert_keras.tokenizers import Tokenizer

folder, place = Path(sys.argv[1]), sys.argv[2]

def documents():
    yield from [["b c"], ["d"]]
    if place == "documents":
        os.kill(os.getpid(), signal.SIGKILL)

def killing(self, target, rename=Path.rename):
    rename(self, target)
    if place in (self.name, target.name):
        os.kill(os.getpid(), signal.SIGKILL)

def syncing(path, sync=file_io._sync):
    if place == "sync":
        os.kill(os.getpid(), signal.SIGKILL)
    sync(path)

Path.rename, file_io._sync = killing, syncing
tokenizer = Tokenizer(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij", "##a", "."))
write(folder, documents(), tokenizer, overwrite=True)
"""


@pytest.mark.parametrize(
    ("place", "replaced", "left"),
    [
        ("documents", False, None),
        ("sync", False, None),
        (".tmp-c", False, "new"),
        ("documents", True, "old"),
        ("sync", True, "old"),
        # The old corpus is renamed, and the new one is not yet in its place.
        (".old-c", True, None),
        (".tmp-c", True, "new"),
    ],
)
def test_killed_at_any_point(tmp_path: Path, place: str, replaced: bool, left: str | None) -> None:
    """After a kill the folder holds a complete corpus or nothing.

    The next writer removes what the killed one left.
    """
    folder = tmp_path / "c"
    if replaced:
        write(folder, [["a"], ["a"]], TOKENIZER)
    old = _files(folder)
    command = [sys.executable, "-c", _SCRIPT, str(folder), place]
    run = subprocess.run(command, cwd=_REPO, check=False)
    assert run.returncode == -signal.SIGKILL
    write(tmp_path / "expected", [["b c"], ["d"]], TOKENIZER)
    states = {None: {}, "old": old, "new": _files(tmp_path / "expected")}
    assert _files(folder) == states[left]
    if replaced and left is None:  # The old corpus must come back.
        with pytest.raises(UsageError, match="holds a corpus already"):
            write(folder, [["e"], ["f"]], TOKENIZER)
        assert _files(folder) == old
    write(folder, [["e"], ["f"]], TOKENIZER, overwrite=True)
    assert {path.name for path in tmp_path.iterdir()} == {"c", "expected"}
    assert (
        Corpus.open(folder / "train", verify=True).tokens.tolist() == TOKENIZER.text_ids(["e"])[0]
    )


@pytest.mark.data
def test_real_text(shared_data: Path, tmp_path: Path) -> None:
    with (shared_data / "enwiki" / "enwiki_20MB.txt").open("rb") as file:
        (tmp_path / "slice.txt").write_bytes(file.read(3_000_000).rpartition(b"\n\n")[0])
    vocabulary = shared_data / "bert_vocabs" / "bert-base-uncased-vocab.txt"
    tokenizer = Tokenizer(vocabulary.read_text(encoding="utf-8").split("\n")[:-1])
    for workers in (1, 2):
        corpora = write(
            *(tmp_path / str(workers), read(tmp_path / "slice.txt"), tokenizer), workers=workers
        )
        counts = corpora["train"].manifest["counts"]
        assert counts["unknown_tokens"] < 0.001 * counts["tokens"]
        assert 4 < counts["text_bytes"] / counts["tokens"] < 5
    assert _files(tmp_path / "1") == _files(tmp_path / "2")
    manifest = json.loads((tmp_path / "1" / "held_out" / "manifest.json").read_text())
    assert 0 < manifest["counts"]["documents"] < 0.03 * corpora["train"].num_documents + 1
