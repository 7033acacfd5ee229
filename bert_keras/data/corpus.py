"""The token store: a tokenised corpus on disk, read through memory maps.

A store is a folder:

    tokens.bin      token ids of all sentences, uint16 or (vocabularies over 65,535) int32
    sentences.bin   int64 [sentences + 1], where sentences start in the tokens
    documents.bin   int64 [documents + 1], where documents start in the sentences
    manifest.json   format, counts, size and sha256 of each file, tokenizer, origin

Numbers are little-endian. Nothing in it depends on the machine or the number of workers.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import numpy as np

from bert_keras import file_io
from bert_keras.errors import ArtifactError
from bert_keras.tokenizers.vocabulary_coverage import Coverage

TOKENS, SENTENCES, DOCUMENTS = "tokens.bin", "sentences.bin", "documents.bin"
MANIFEST = "manifest.json"
OFFSET = np.dtype("<i8")

_FORMAT, _VERSION = "bert-keras corpus", 1
_TOKEN_DTYPES = ("<u2", "<i4")


@dataclass(frozen=True, eq=False, repr=False)
class Corpus:
    """A tokenised corpus: documents of sentences of tokens, none of them empty.

    Sentence i is `tokens[sentence_starts[i] : sentence_starts[i + 1]]`, and document i has the
    sentences from `document_starts[i]` up to `document_starts[i + 1]`. Open or build one with
    `open` and `from_ids`, write one with `bert_keras.data.write`.
    """

    tokens: np.ndarray  # uint16 or int32 [num_tokens]
    sentence_starts: np.ndarray  # int64 [num_sentences + 1]
    document_starts: np.ndarray  # int64 [num_documents + 1]
    manifest: dict[str, Any]
    directory: Path | None = None

    @classmethod
    def open(cls, directory: str | os.PathLike[str], verify: bool = False) -> Corpus:
        """Open the store in a folder. The files are mapped to memory, and not read.

        Args:
            directory: the folder.
            verify: True also reads all files, compares their sha256 with the manifest, and checks
                that offsets ascend. False compares sizes and counts only.

        Raises:
            ArtifactError: the folder has no store, or a damaged one. The message names the file.
        """
        folder = Path(directory)
        manifest = _read_manifest(folder)
        tokens = _map(folder / TOKENS, manifest, verify)
        sentence_starts = _map(folder / SENTENCES, manifest, verify)
        document_starts = _map(folder / DOCUMENTS, manifest, verify)
        for name, starts, end in (
            (SENTENCES, sentence_starts, len(tokens)),
            (DOCUMENTS, document_starts, len(sentence_starts) - 1),
        ):
            if (starts[0], starts[-1]) != (0, end):
                raise ArtifactError(
                    f"{folder / name}: the offsets must go from 0 to {end}. Received: {starts[0]} "
                    f"to {starts[-1]}. Prepare the corpus again."
                )
            if verify and not (np.diff(starts) > 0).all():
                raise ArtifactError(
                    f"{folder / name}: every offset must be greater than the one before it, and "
                    "one is not. Prepare the corpus again."
                )
        return cls(tokens, sentence_starts, document_starts, manifest, folder)

    @classmethod
    def from_ids(cls, documents: Iterable[Iterable[Sequence[int]]]) -> Corpus:
        """Build a corpus in memory from documents, each a sequence of sentences of token ids.

        Empty sentences and documents are dropped.
        """
        kept = [[list(ids) for ids in sentences if len(ids)] for sentences in documents]
        kept = [sentences for sentences in kept if sentences]
        flat = list(chain.from_iterable(kept))
        ids = np.array(list(chain.from_iterable(flat)), np.int64)
        arrays = {
            TOKENS: ids.astype(token_dtype(int(ids.max(initial=0)) + 1)),
            SENTENCES: np.array([*accumulate(map(len, flat), initial=0)], OFFSET),
            DOCUMENTS: np.array([*accumulate(map(len, kept), initial=0)], OFFSET),
        }
        files = {n: (a.nbytes, hashlib.sha256(a.tobytes()).hexdigest()) for n, a in arrays.items()}
        counts = {"tokens": len(ids), "sentences": len(flat), "documents": len(kept)}
        tokens, sentence_starts, document_starts = arrays.values()
        manifest = make_manifest(tokens.dtype, counts, files)
        return cls(tokens, sentence_starts, document_starts, manifest)

    @property
    def num_tokens(self) -> int:
        """Number of tokens. Special tokens are not stored."""
        return len(self.tokens)

    @property
    def num_sentences(self) -> int:
        """Number of sentences in all documents."""
        return len(self.sentence_starts) - 1

    @property
    def num_documents(self) -> int:
        """Number of documents."""
        return len(self.document_starts) - 1

    @property
    def coverage(self) -> Coverage:
        """Numbers of words, tokens and characters, and of those lost in [UNK].

        They are 0 where the manifest of an earlier version, or of a corpus in memory, lacks them.
        """
        counts = self.manifest["counts"]
        names = [field.name for field in dataclasses.fields(Coverage)]
        return Coverage(**{name: counts.get(name, 0) for name in names})

    @property
    def fingerprint(self) -> str:
        """A sha256 of the arrays and the tokenizer, which tells if two corpora are the same."""
        digests = {name: file["sha256"] for name, file in self.manifest["files"].items()}
        identity = json.dumps([digests, self.manifest.get("tokenizer")], sort_keys=True)
        return hashlib.sha256(identity.encode()).hexdigest()

    def __repr__(self) -> str:
        return (
            f"Corpus({self.directory or 'in memory'}: {self.num_documents:,} documents, "
            f"{self.num_sentences:,} sentences, {self.num_tokens:,} tokens)"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        if self.directory is not None:  # a pickled memory map would be a copy of the file
            return Corpus.open, (self.directory,)
        return Corpus, (self.tokens, self.sentence_starts, self.document_starts, self.manifest)


def token_dtype(vocab_size: int) -> np.dtype:
    """Return the dtype of stored token ids: uint16, or int32 for more than 65,535 tokens."""
    return np.dtype(_TOKEN_DTYPES[vocab_size > 65_535])


def make_manifest(
    dtype: np.dtype, counts: Mapping[str, int], files: Mapping[str, tuple[int, str]], **about: Any
) -> dict[str, Any]:
    """Return the manifest of a store.

    Args:
        dtype: dtype of the tokens.
        counts: number of "tokens", "sentences", "documents" and other things.
        files: size in bytes and sha256 of each file, by its name.
        about: further entries, such as the tokenizer.
    """
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "dtype": dtype.str,
        "counts": dict(counts),
        "files": {name: {"size": size, "sha256": digest} for name, (size, digest) in files.items()},
        **about,
    }


def _read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a store, with format and version checked."""
    path = folder / MANIFEST
    try:
        path.open("rb").close()  # raises the OSError that the message below needs
        manifest = file_io.read_json(path, file_io.LARGE)  # large: it names every source file
    except ArtifactError as error:
        raise ArtifactError(f"{error} Prepare the corpus again.") from None
    except OSError as error:
        inside = [store.parent.name for store in sorted(folder.glob(f"*/{MANIFEST}"))]
        hint = f"Open one of the corpora in it: {', '.join(inside)}."
        hint = hint if inside else "Write one first with bert_keras.data.write."
        raise ArtifactError(
            f"{path}: {error.strerror}, so the folder is not a corpus. {hint}"
        ) from None
    is_object = file_io.is_object(manifest)
    identity = [manifest.get(key) for key in ("format", "version")] if is_object else None
    if identity != [_FORMAT, _VERSION]:
        raise ArtifactError(
            f"{path}: format and version must be {[_FORMAT, _VERSION]}. Received: {identity}. "
            "Prepare the corpus again with this version."
        )
    return manifest


def _map(path: Path, manifest: dict[str, Any], verify: bool) -> np.ndarray:
    """Return a file of a store as a memory map, if it has the size that the manifest says.

    Args:
        path: the file.
        manifest: the manifest of its store.
        verify: whether to compare the sha256 too, for which the file is read.
    """
    try:
        expected, counts = manifest["files"][path.name], manifest["counts"]
        size, digest = int(expected["size"]), str(expected["sha256"])
        if manifest["dtype"] not in _TOKEN_DTYPES:  # dtype object would read bytes as pointers
            raise ValueError(f"dtype must be one of {_TOKEN_DTYPES}, not {manifest['dtype']!r}")
        dtype = np.dtype(manifest["dtype"]) if path.name == TOKENS else OFFSET
        length = int(counts[path.name.removesuffix(".bin")]) + (path.name != TOKENS)
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(
            f"{path.with_name(MANIFEST)}: the manifest is damaged. Received: {error!r}. "
            "Prepare the corpus again."
        ) from None
    size_on_disk = path.stat().st_size if path.is_file() else None
    if not size_on_disk == size == length * dtype.itemsize:
        raise ArtifactError(
            f"{path}: must have {size:,} bytes, for {length:,} numbers of dtype {dtype}. Received: "
            f"{'no such file' if size_on_disk is None else f'{size_on_disk:,} bytes'}. "
            "Prepare the corpus again."
        )
    if verify:
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                raise ArtifactError(
                    f"{path}: the sha256 of the file differs from the one in {MANIFEST}, so the "
                    "file was changed or damaged. Prepare the corpus again."
                )
    return np.memmap(path, dtype, "r") if size else np.empty(0, dtype)
