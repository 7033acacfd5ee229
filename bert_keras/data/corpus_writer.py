"""Writing token stores in bounded memory, with the same bytes for any number of workers.

Text is tokenised in blocks, of which only a few are in memory at a time. The number of workers does
not change the blocks.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from bert_keras import file_io
from bert_keras.data import corpus as store
from bert_keras.data.corpus_workers import EncodedBlock, TextBlock, encode_blocks
from bert_keras.data.documents import Documents, Progress
from bert_keras.errors import DataError, ResourceError, UsageError
from bert_keras.file_io import one_writer
from bert_keras.tokenizers.files import FILES as TOKENIZER_FILES

if TYPE_CHECKING:
    from bert_keras.tokenizers import Tokenizer

BLOCK = 2**20  # characters of text that are tokenised at once


def text_blocks(
    documents: Iterable[Iterable[str]], split_of: Callable[[int], str]
) -> Iterator[TextBlock]:
    """Yield the sentences of documents in blocks of about `BLOCK` characters, by split.

    Args:
        documents: documents of sentences. A long one goes on in the next block of its split.
        split_of: returns the split of a document, from its index.
    """
    open_blocks: dict[str, TextBlock] = {}
    sizes: dict[str, int] = defaultdict(int)
    for index, document in enumerate(documents):
        split = split_of(index)
        block = open_blocks.setdefault(split, TextBlock(split))
        for text in document:
            block.texts.append(text)
            sizes[split] += len(text) + 1  # empty sentences take memory too
            if sizes[split] >= BLOCK:
                yield open_blocks.pop(split)
                block = open_blocks[split] = TextBlock(split)
                sizes[split] = 0
        block.ends.append(len(block.texts))
    yield from open_blocks.values()


# === Writing ===
# The folder of a corpus gets its name when all files are complete and on the disk.


TRAIN, VALIDATION = "train", "validation"
# Folders of the splits, and their names in manifests. "held_out" is an earlier name of the
# validation split. It is kept so that prepared corpora open.
SPLIT_FOLDERS = {TRAIN: "train", VALIDATION: "held_out"}


def write(
    directory: str | os.PathLike[str],
    documents: Iterable[Iterable[str]],
    tokenizer: Tokenizer,
    *,
    validation_split: float = 0.02,
    workers: int = 1,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> dict[str, store.Corpus]:
    """Tokenise documents into a new folder, with the files of the tokenizer.

    The training split is in `train`, the validation split in `held_out`, its earlier name.

    Sentences and documents without tokens are dropped, and counted in the manifests.

    Args:
        directory: the folder to make.
        documents: documents of sentences, read once; see `read`.
        tokenizer: tokenizer that encodes the sentences.
        validation_split: share of the documents in the validation split. It is rounded to one of
            every `stride(validation_split)` documents. 0 writes no validation split.
        workers: number of processes that tokenise, including this one. The others are spawned, so
            a script must call this below `if __name__ == "__main__":`.
        overwrite: whether to replace a corpus in the folder, once the new one is complete.
        progress: called with (documents written, None, "documents").

    Returns:
        The corpora by split: "train", and "validation" unless `validation_split` is 0.

    Raises:
        DataError: too few documents, so that a split has none.
        UsageError: the folder has a corpus already, or other files.
        ResourceError: the disk is full, a worker was killed, or another process writes the folder.
    """
    if workers < 1:
        raise ValueError(f"workers must be at least 1. Received: {workers}")
    step = stride(validation_split)
    splits = [TRAIN, VALIDATION] if step else [TRAIN]
    target = Path(directory).resolve()
    with _new_folder(target, overwrite) as folder, ExitStack() as files:
        tokenizer.save_to_preset(folder)
        stores = {split: _Store(folder / SPLIT_FOLDERS[split], files) for split in splits}
        done = 0
        source = text_blocks(documents, partial(split_of, validation_split=validation_split))
        encoded_blocks = files.enter_context(closing(encode_blocks(source, tokenizer, workers)))
        for block, encoded in encoded_blocks:
            stores[block.split].append(encoded, block.ends)
            done += len(block.ends)
            if progress:
                progress(done, None, "documents")
        for split in splits:
            if not stores[split].counts["documents"]:
                raise DataError(
                    f"No document with text is left for the split {split!r}. Received: {done} "
                    f"documents, validation_split={validation_split}. Put blank lines between "
                    "documents, add text, or pass validation_split=0."
                )
            stores[split].finish(
                store.token_dtype(tokenizer.vocab_size),
                tokenizer={key: getattr(tokenizer, key) for key in ("fingerprint", "vocab_size")},
                split={"name": SPLIT_FOLDERS[split], "held_out": validation_split, "stride": step},
                origin=documents.origin if isinstance(documents, Documents) else None,
            )
    return {split: store.Corpus.open(target / SPLIT_FOLDERS[split]) for split in splits}


def stride(validation_split: float) -> int:
    """Return n if one of every n documents is for validation, and 0 if none is. 0.02 gives 50."""
    if not 0 <= validation_split <= 0.5:
        raise ValueError(f"validation_split must be from 0 to 0.5. Received: {validation_split}")
    return round(1 / validation_split) if validation_split else 0


def split_of(index: int, validation_split: float) -> str:
    """Return the split of a document: "validation" for the second of every n, else "train".

    n is `stride(validation_split)`.

    Args:
        index: number of the document in the order of reading, from 0.
        validation_split: share of the documents in the validation split.
    """
    step = stride(validation_split)
    return VALIDATION if step and index % step == 1 else TRAIN


def require_vacant(directory: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Raise a `UsageError` if `write` cannot write to a folder.

    The folder must be new, empty or, with `overwrite`, hold a corpus and nothing else.

    Raises:
        UsageError: the folder has something else.
        ResourceError: the folder cannot be written.
    """
    folder = Path(directory)
    _require_writable(folder)
    if not folder.exists():
        return
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else [folder.name]
    if not names:
        return
    others = set(names) - {*SPLIT_FOLDERS.values(), *TOKENIZER_FILES}
    if others or not (folder / SPLIT_FOLDERS[TRAIN] / store.MANIFEST).is_file():
        raise UsageError(
            f"{folder}: the folder for a corpus must be new, empty or hold a corpus. "
            f"Received: a folder with {', '.join(names[:5])}. Name another folder."
        )
    if not overwrite:
        raise UsageError(
            f"{folder}: the folder holds a corpus already. Name another folder, or pass "
            "overwrite=true to replace the corpus."
        )


def _require_writable(path: Path) -> None:
    """Refuse a place where nothing can be written, before work begins whose result goes there.

    An empty file is written as a trial, in the nearest folder that exists, and removed.

    Raises:
        ResourceError: if the folder cannot be written. The message names it.
    """
    folder = path.absolute().parent  # a new folder takes the place of `path`
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ResourceError(
            f"{path}: cannot be written: {error.strerror}: {folder}. Name a folder that you may "
            "write to."
        ) from error


class _Store:
    """Writer of one token store. It keeps only counts in memory, and writes arrays as they come.

    Args:
        folder: folder to make for the store.
        files: closes the open files of the store.
    """

    def __init__(self, folder: Path, files: ExitStack):
        folder.mkdir()
        self._folder = folder
        self._files: dict[str, BinaryIO] = {
            name: files.enter_context((folder / name).open("xb"))
            for name in (store.TOKENS, store.SENTENCES, store.DOCUMENTS)
        }
        self.counts: Counter[str] = Counter()
        self._last_end = 0  # end of the last complete document, in sentences of the store
        for name in (store.SENTENCES, store.DOCUMENTS):
            self._files[name].write(np.zeros(1, store.OFFSET).tobytes())

    def append(self, block: EncodedBlock, ends: list[int]) -> None:
        """Add the sentences of a block. See `TextBlock` for the ends of its documents."""
        counts, filled = self.counts, block.lengths > 0
        sentence_ends = counts["tokens"] + np.cumsum(block.lengths[filled])
        before = np.concatenate(([0], np.cumsum(filled)))
        document_ends = counts["sentences"] + before[np.asarray(ends, np.int64)]
        grown = np.diff(document_ends, prepend=self._last_end) > 0
        self._files[store.TOKENS].write(block.tokens.tobytes())
        self._files[store.SENTENCES].write(sentence_ends.astype(store.OFFSET).tobytes())
        self._files[store.DOCUMENTS].write(document_ends[grown].astype(store.OFFSET).tobytes())
        if ends:
            self._last_end = int(document_ends[-1])
        for name, number in {
            "tokens": len(block.tokens),
            "sentences": filled.sum(),
            "documents": grown.sum(),
            "text_bytes": block.text_bytes,
            **dataclasses.asdict(block.coverage),
            "dropped_sentences": (~filled).sum(),
            "dropped_documents": (~grown).sum(),
        }.items():
            counts[name] += int(number)

    def finish(self, dtype: np.dtype, **about: Any) -> None:
        """Close the files and write the manifest. See `make_manifest` for the arguments."""
        files: dict[str, tuple[int, str]] = {}
        for name, file in self._files.items():
            file.close()
            with (self._folder / name).open("rb") as written:
                digest = hashlib.file_digest(written, "sha256").hexdigest()
                files[name] = (written.tell(), digest)
        manifest = store.make_manifest(dtype, self.counts, files, **about)
        text = json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
        file_io.write_text(self._folder / store.MANIFEST, text)


@contextmanager
def _new_folder(target: Path, overwrite: bool) -> Generator[Path]:
    """Return a context with a new folder, which becomes `target` if the context has no error."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with one_writer(target):
            file_io.settle(target)
            require_vacant(target, overwrite)
            with file_io.new_folder(target) as folder:
                yield folder
    except OSError as error:
        raise ResourceError(
            f"{target}: the corpus cannot be written: {error}. Free space on the disk, or name a "
            "folder that you may write to."
        ) from error
