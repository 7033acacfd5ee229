"""The token corpus: opening it, and refusing damaged files."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras import file_io
from bert_keras.data import Corpus, write
from bert_keras.data.corpus import MANIFEST, token_dtype
from bert_keras.errors import ArtifactError
from bert_keras.tokenizers import Tokenizer

PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##c", ".")
DOCUMENTS = [["a b.", "b"], ["ac"], ["a", "b a", "."]]
IDS = [[[5, 6, 8], [6]], [[5, 7]], [[5], [6, 5], [8]]]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    write(tmp_path / "corpus", DOCUMENTS, Tokenizer(PIECES), validation_split=0.0)
    return tmp_path / "corpus" / "train"


def _nested(corpus: Corpus) -> list[list[list[int]]]:
    """Return the token ids of a corpus as lists of sentences in lists of documents."""
    sentences = [
        corpus.tokens[start:end].tolist()
        for start, end in zip(corpus.sentence_starts, corpus.sentence_starts[1:], strict=False)
    ]
    documents = zip(corpus.document_starts, corpus.document_starts[1:], strict=False)
    return [sentences[start:end] for start, end in documents]


def test_a_store_holds_what_was_written(store: Path) -> None:
    corpus = Corpus.open(store, verify=True)
    assert _nested(corpus) == IDS
    assert (corpus.num_documents, corpus.num_sentences, corpus.num_tokens) == (3, 6, 10)
    assert isinstance(corpus.tokens, np.memmap)
    assert not corpus.tokens.flags.writeable
    assert [a.dtype for a in (corpus.tokens, corpus.sentence_starts, corpus.document_starts)] == [
        *[np.uint16, np.int64, np.int64]
    ]
    assert "3 documents, 6 sentences, 10 tokens" in repr(corpus)


def test_the_manifest(store: Path) -> None:
    manifest = Corpus.open(store).manifest
    assert (manifest["format"], manifest["version"]) == ("bert-keras corpus", 1)
    assert manifest["dtype"] == "<u2"
    assert manifest["counts"] == {
        "documents": 3,
        "sentences": 6,
        "tokens": 10,
        "text_bytes": 12,
        "unknown_tokens": 0,
        "words": 9,
        "long_words": 0,
        "characters": 12,
        "long_characters": 0,
        "dropped_documents": 0,
        "dropped_sentences": 0,
    }
    assert manifest["tokenizer"] == {
        "fingerprint": Tokenizer(PIECES).fingerprint,
        "vocab_size": len(PIECES),
    }
    assert manifest["split"] == {"name": "train", "held_out": 0.0, "stride": 0}
    assert {path.name for path in store.iterdir()} == {*manifest["files"], MANIFEST}


@pytest.mark.parametrize(
    ("vocab_size", "expected"), [(1, "<u2"), (65_535, "<u2"), (65_536, "<i4"), (2**20, "<i4")]
)
def test_token_dtype(vocab_size: int, expected: str) -> None:
    assert token_dtype(vocab_size).str == expected


def test_large_vocabularies(tmp_path: Path) -> None:
    pieces = [*PIECES, *(chr(0x20000 + i) for i in range(65_536 - len(PIECES)))]
    corpus = write(tmp_path / "c", [[pieces[-1] + " a"]], Tokenizer(pieces), validation_split=0)[
        "train"
    ]
    assert _nested(corpus) == [[[65_535, 5]]]
    assert corpus.tokens.dtype == np.int32


def test_a_corpus_in_memory(store: Path) -> None:
    corpus = Corpus.from_ids([[], *IDS[:1], [[], []], *IDS[1:], [[]]])
    assert _nested(corpus) == IDS
    assert (corpus.num_documents, corpus.num_sentences, corpus.num_tokens) == (3, 6, 10)
    stored = Corpus.open(store)
    assert corpus.manifest["files"] == stored.manifest["files"]
    assert corpus.tokens.dtype == stored.tokens.dtype
    assert "in memory" in repr(corpus)
    assert Corpus.from_ids([[[65_536]]]).tokens.dtype == np.int32
    empty = Corpus.from_ids([])
    assert (empty.num_documents, empty.num_sentences, empty.num_tokens) == (0, 0, 0)


def test_fingerprints(store: Path, tmp_path: Path) -> None:
    """A fingerprint depends on the documents and the tokenizer, and not on the folder."""
    fingerprint = Corpus.open(store).fingerprint

    def other(documents: list[list[str]], tokenizer: Tokenizer) -> str:
        return write(tmp_path / "o", documents, tokenizer, validation_split=0, overwrite=True)[
            "train"
        ].fingerprint

    assert other(DOCUMENTS, Tokenizer(PIECES)) == fingerprint
    assert other([DOCUMENTS[0] + DOCUMENTS[1], DOCUMENTS[2]], Tokenizer(PIECES)) != fingerprint
    assert other(DOCUMENTS, Tokenizer(PIECES, lowercase=False)) != fingerprint
    in_memory = [Corpus.from_ids(ids).fingerprint for ids in (IDS, IDS, IDS[1:])]
    assert in_memory[0] == in_memory[1] != in_memory[2]


def test_pickles_are_small_and_equal(store: Path) -> None:
    for corpus in (Corpus.open(store), Corpus.from_ids(IDS)):
        again = pickle.loads(pickle.dumps(corpus))
        assert _nested(again) == IDS
        assert again.fingerprint == corpus.fingerprint
    assert len(pickle.dumps(Corpus.open(store))) < 500


def test_a_corpus_of_very_many_files_opens(store: Path) -> None:
    file = {"name": "x" * 100, "size": 1}
    _edit(lambda manifest: manifest.update(origin={"files": [file] * 100_000}))(store)
    assert (store / MANIFEST).stat().st_size > file_io.SMALL
    assert _nested(Corpus.open(store)) == IDS


def _edit(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """Return a function that changes the manifest of a corpus."""

    def edit(store: Path) -> None:
        manifest = json.loads((store / MANIFEST).read_text())
        change(manifest)
        (store / MANIFEST).write_text(json.dumps(manifest))

    return edit


def _bytes(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Return a function that changes the bytes of one file of a corpus."""

    def edit(store: Path) -> None:
        (store / name).write_bytes(change((store / name).read_bytes()))

    return edit


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda s: (s / MANIFEST).unlink(), r"manifest\.json: No such file.*Write one first"),
        (_bytes(MANIFEST, lambda b: b[:100]), r"manifest\.json: not JSON"),
        (_bytes(MANIFEST, lambda _: b"[]"), r"manifest\.json: format and version .*Received: None"),
        (_bytes(MANIFEST, lambda _: b"\xff"), r"manifest\.json: not JSON"),
        (_edit(lambda m: m.update(format="other")), r"Received: \['other', 1\]"),
        (_edit(lambda m: m.update(version=2)), r"Received: \['bert-keras corpus', 2\]"),
        (
            _edit(lambda m: m.pop("files")),
            r"manifest\.json: the manifest is damaged\. Received: KeyError\('files'\)",
        ),
        (_edit(lambda m: m.update(dtype="<q9")), r"the manifest is damaged\. Received: ValueError"),
        (_edit(lambda m: m.update(dtype="|O")), r"the manifest is damaged\. Received: ValueError"),
        (
            _edit(lambda m: m["counts"].update(tokens="x")),
            r"the manifest is damaged\. Received: ValueError",
        ),
        (_edit(lambda m: m["counts"].update(tokens=9)), r"tokens\.bin: must have 20 bytes, for 9"),
        (lambda s: (s / "tokens.bin").unlink(), r"tokens\.bin: must .*Received: no such file"),
        (_bytes("tokens.bin", lambda b: b[:-2]), r"tokens\.bin: .* 20 bytes.*Received: 18 bytes"),
        (_bytes("tokens.bin", lambda b: b + b"\0"), r"tokens\.bin: .* Received: 21 bytes"),
        (_bytes("sentences.bin", lambda b: b[:-8]), r"sentences\.bin: must have 56 bytes"),
        (_bytes("documents.bin", lambda _: b""), r"documents\.bin: must have 32 bytes"),
        (
            _bytes("documents.bin", lambda _: bytes(32)),
            r"documents\.bin: the offsets must go from 0 to 6",
        ),
        (
            _bytes("sentences.bin", lambda b: b[::-1]),
            r"sentences\.bin: the offsets must go from 0 to 10",
        ),
    ],
)
def test_damage_that_is_always_seen(
    store: Path, damage: Callable[[Path], None], message: str
) -> None:
    damage(store)
    with pytest.raises(ArtifactError, match=message):
        Corpus.open(store)


@pytest.mark.parametrize("name", ["tokens.bin", "sentences.bin", "documents.bin"])
def test_a_flipped_bit_is_seen_by_verify(store: Path, name: str) -> None:
    data = bytearray((store / name).read_bytes())
    data[8] ^= 4
    (store / name).write_bytes(data)
    Corpus.open(store)
    with pytest.raises(ArtifactError, match=rf"{name}: the sha256 of the file differs"):
        Corpus.open(store, verify=True)


def test_offsets_that_do_not_ascend_are_seen_by_verify(store: Path) -> None:
    data = (store / "sentences.bin").read_bytes()
    swapped = data[:8] + data[16:24] + data[8:16] + data[24:]
    (store / "sentences.bin").write_bytes(swapped)
    digest = hashlib.sha256(swapped).hexdigest()
    _edit(lambda m: m["files"]["sentences.bin"].update(sha256=digest))(store)
    with pytest.raises(ArtifactError, match=r"sentences\.bin: every offset must be greater"):
        Corpus.open(store, verify=True)


def test_the_folder_around_the_stores_is_none(store: Path) -> None:
    """A folder that only contains corpora is refused, and the error names them."""
    with pytest.raises(ArtifactError, match=r"is not a corpus\. Open one of the .* in it: train"):
        Corpus.open(store.parent)
    with pytest.raises(ArtifactError, match=r"nowhere/manifest\.json: No such file"):
        Corpus.open(store / "nowhere")


def test_a_corpus_cannot_be_changed(store: Path) -> None:
    corpus = Corpus.open(store)
    with pytest.raises(dataclasses.FrozenInstanceError):
        corpus.manifest = {}  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(ValueError, match="read-only"):
        corpus.tokens[0] = 1
