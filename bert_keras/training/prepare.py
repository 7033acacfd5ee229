"""Prepare a corpus to train on: a vocabulary, the tokens of the text, and a validation split.

    bert-keras prepare corpus=FILES out=FOLDER [key=value …]

    corpus=                a file, a folder or a glob in quotes; .txt, .jsonl, gzipped or not
    out=                   the folder to make
    layout=text            running text, a paragraph per line, or sentences, one per line; a blank
                           line ends a document. A line of a .jsonl file is a document
    language=en            ISO code of the language: its rules split running text into sentences
    field=text             key of the text in .jsonl files
    vocab=                 a vocab.txt, or a folder with one; without it, a vocabulary is learned
    model=wordpiece        what is learned: wordpiece; or bpe, unigram or char, for text without
                           spaces between words, such as Thai
    vocab_size=16000       entries of a vocabulary that is learned without the validation documents
    lowercase=true         convert text to lower case, with wordpiece without accents; a folder of
                           vocab= decides this by itself
    validation_split=0.02  share of the documents for validation: one document in N, N = 1 /
                           validation_split; 0: none
    workers=2              processes that prepare the text
    overwrite=false        replace the corpus that is in the folder

Examples:
    bert-keras prepare corpus="wiki/*.gz" out=corpora/wiki vocab_size=30_000 workers=8
    bert-keras prepare corpus=books.jsonl field=body out=corpora/books lowercase=false
    bert-keras prepare corpus=thai.txt out=corpora/thai model=unigram vocab_size=8_000

Then: bert-keras pretrain RECIPE corpus=FOLDER
Exit codes: 0 done, 2 bad arguments, 3 bad text, 5 no space, or the folder is in use, 130 and 143
stopped by a signal; an unfinished corpus is removed.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import resource
import sys
import warnings
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.table import Table

from bert_keras import Tokenizer, data, escaping, file_io, presets
from bert_keras.errors import CoverageWarning, DataError, UsageError
from bert_keras.tokenizers import Coverage
from bert_keras.training.machine import RSS_UNIT
from bert_keras.training.progress import clock, task
from bert_keras.training.recipe_files import check_learned, parse_overrides
from bert_keras.training.run import run

ANOTHER_MODEL = "prepare it with model=unigram, model=bpe or model=char"
_ANOTHER_VOCABULARY = (
    "The vocabulary does not fit the text: learn one from it, or check its language and lowercase=."
)
_LANGUAGE = re.compile("[a-z]{2,3}([-_][A-Za-z0-9]+)*")


@dataclasses.dataclass(frozen=True)
class Prepared:
    """Result of a preparation, and its times in seconds."""

    corpora: dict[str, data.Corpus]
    learn_seconds: float
    write_seconds: float

    @property
    def coverage(self) -> Coverage:
        """Numbers of words, tokens and characters in all corpora, and of those lost in [UNK]."""
        return sum((corpus.coverage for corpus in self.corpora.values()), Coverage())


def main(arguments: list[str]) -> None:
    """Run the program."""
    values = parse_overrides(arguments, DEFAULTS)
    for key in ("corpus", "out"):
        if not values[key]:
            raise UsageError(
                f"{key}= is missing. Write: bert-keras prepare corpus=FILES out=FOLDER"
            )
    made = prepare(**values)
    _print_summary(made, values)
    cure = vocabulary_cure("model", is_learned=not values["vocab"])
    if message := made.coverage.message(ANOTHER_MODEL, cure):
        print(f"note: {message}", file=sys.stderr)


def vocabulary_cure(key: str, *, is_learned: bool) -> str:
    """Return a sentence that says what to do if many words of a text are [UNK].

    Args:
        key: key of the tokenizer's kind on the command line.
        is_learned: whether the vocabulary was learned from this text.
    """
    if not is_learned:
        return _ANOTHER_VOCABULARY
    return f"The vocabulary is too small for the text: give a larger vocab_size=, or {key}=bpe."


def prepare(
    *,
    corpus: str,
    out: str | Path,
    layout: str = "text",
    language: str = "en",
    field: str = "text",
    vocab: str = "",
    model: str = "wordpiece",
    vocab_size: int = 16_000,
    lowercase: bool = True,
    validation_split: float = 0.02,
    workers: int = 2,
    overwrite: bool = False,
    file_names: tuple[str, ...] = (),
) -> Prepared:
    """Prepare a corpus as the program does, with the arguments of its command line.

    The manifest names the files of the text as `corpus` does, or by `file_names`.

    Raises:
        UsageError: a bad argument, or a folder that is taken.
        DataError: text or a vocabulary that cannot be used.
        ResourceError: no space, a killed worker, a folder in use.
    """
    _check(layout, language, validation_split, workers)
    check_learned("model", model, vocab_size, vocab)
    out = file_io.expanded(out)
    # Now, not when the vocabulary is learned.
    data.require_vacant(out, overwrite)
    before: list[tuple[str, int, int]] = []  # name, size and time of the files that were read

    def read(progress: Any) -> data.Documents:
        """Return the documents of the corpus; reading them calls `progress`."""
        text = data.read(corpus, layout=layout, language=language, field=field, progress=progress)
        _require_unchanged(before, text)
        return dataclasses.replace(text, names=file_names) if file_names else text

    start = perf_counter()
    if vocab:
        tokenizer = open_tokenizer(vocab, lowercase)
    else:
        with task("vocabulary") as progress:
            documents = enumerate(read(progress))
            train = (doc for i, doc in documents if data.split_of(i, validation_split) == "train")
            with warnings.catch_warnings():
                # The same is said about the whole corpus when it is written.
                warnings.simplefilter("ignore", CoverageWarning)
                tokenizer = Tokenizer.train(
                    train,
                    vocab_size=vocab_size,
                    model=model,
                    lowercase=lowercase,
                    progress=progress,
                )
    learned = perf_counter()
    with task("corpus") as progress:
        corpora = data.write(
            out,
            read(progress),
            tokenizer,
            validation_split=validation_split,
            workers=workers,
            overwrite=overwrite,
            progress=progress,
        )
    return Prepared(corpora, learned - start, perf_counter() - learned)


# What the command line may change: the arguments of `prepare`.
DEFAULTS: dict[str, Any] = {
    name: "" if argument.default is argument.empty else argument.default
    for name, argument in inspect.signature(prepare).parameters.items()
    if name != "file_names"
}


def find_prepared(corpus: str) -> Path | None:
    """Return the folder that `corpus` names if `prepare` made it; else None."""
    folder = file_io.expanded(corpus)
    return folder if (folder / "train" / data.MANIFEST).is_file() else None


def changes(corpus: str, prepared: Path) -> list[str]:
    """Return a line for each file of a text that differs from the one that was prepared.

    The manifest has names and sizes. A file of the same size counts as changed if it was written
    after the manifest.

    Args:
        corpus: the text, as for `prepare`.
        prepared: folder that `prepare` made from it.

    Raises:
        DataError: the text is not there any more.
    """
    manifest = prepared / "train" / data.MANIFEST
    known = data.Corpus.open(prepared / "train").manifest["origin"]["files"]
    before = {file["name"]: file["size"] for file in known}
    made = manifest.stat().st_mtime
    text = data.read(corpus)
    names = [file["name"] for file in text.origin["files"]]
    stats = {name: file.stat() for name, file in zip(names, text.files, strict=True)}
    lines = [f"{name} is gone" for name in before if name not in stats]
    for name, stat in stats.items():
        if name not in before:
            lines.append(f"{name} is new")
        elif stat.st_size != before[name]:
            lines.append(f"{name} had {before[name]:,} bytes, and has {stat.st_size:,} now")
        elif stat.st_mtime > made:
            lines.append(f"{name} was written since")
    return lines


def note_changes(corpus: str, prepared: Path, lines: list[str] | None) -> None:
    """Tell that a run goes on without the text of today.

    Args:
        corpus: the text, as for `prepare`.
        prepared: folder with the run's own tokens.
        lines: lines of `changes`; None if the text is gone.
    """
    reason = f"has changed since the run began: {lines[0]}" if lines else "is gone"
    more = f"; and {len(lines) - 1} more files" if lines and lines[1:] else ""
    note = (
        f"note: the text of corpus={corpus} {reason}{more}. The run goes on exactly, with its own "
        f"tokens in {prepared}. For a run with the text of today give out=FOLDER."
    )
    print(escaping.printable(note), file=sys.stderr)


def _require_unchanged(before: list[tuple[str, int, int]], text: data.Documents) -> None:
    """Compare the files of a text with those of the last reading, and keep their facts.

    Args:
        before: name, size in bytes and time of each file, which this call replaces; [] at first.
        text: the text that is read now.

    Raises:
        DataError: a file was added, removed or written since the last reading.
    """
    stats = [(str(file), file.stat()) for file in text.files]
    now = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
    if before and (changed := sorted({name for name, *_ in set(before) ^ set(now)})):
        raise DataError(
            f"{changed[0]}: changed after the vocabulary was learned from it. Received: "
            f"{len(changed)} files that are new, gone or written since. Run the command again "
            "when nothing writes to them."
        )
    before[:] = now


def _check(layout: str, language: str, validation_split: float, workers: int) -> None:
    """Raise `UsageError` for the first bad argument, before any text is read."""
    for good, rule, name, value in (
        (layout in data.LAYOUTS, f"one of {', '.join(data.LAYOUTS)}", "layout", layout),
        (_LANGUAGE.fullmatch(language), "an ISO code such as en or zh", "language", language),
        (0 <= validation_split <= 0.5, "from 0 to 0.5", "validation_split", validation_split),
        (workers >= 1, "at least 1", "workers", workers),
    ):
        if not good:
            raise UsageError(f"{name} must be {rule}. Received: {name}={value}")


def open_tokenizer(vocab: str, lowercase: bool) -> Tokenizer:
    """Open the tokenizer of a folder, with its own settings, or of a vocab.txt."""
    path = file_io.expanded(vocab)
    if vocab.startswith("hf://") or presets.is_preset(vocab):
        return Tokenizer.from_preset(vocab)
    if not path.exists():
        raise UsageError(
            f"{path}: no such file or folder. Correct vocab= or init_checkpoint=, which "
            "names a vocab.txt or a folder with a tokenizer."
        )
    return Tokenizer.from_preset(path, **({} if path.is_dir() else {"lowercase": lowercase}))


def _print_summary(made: Prepared, values: dict[str, Any]) -> None:
    """Print counts, speed and memory of a preparation."""
    counts = {name: corpus.manifest["counts"] for name, corpus in made.corpora.items()}
    table = Table("", *counts, title=f"{values['out']}: ready")
    for column in table.columns[1:]:
        column.justify = "right"
    for label in ("documents", "sentences", "tokens"):
        table.add_row(label, *(f"{count[label]:,}" for count in counts.values()))
    shares = (count["unknown_tokens"] / count["tokens"] for count in counts.values())
    table.add_row("[UNK] share", *(f"{share:.3%}" for share in shares))
    if made.coverage.long_words:
        cells = (f"{count['long_words']:,}" for count in counts.values())
        table.add_row("words too long for WordPiece", *cells)
    for label in ("dropped_sentences", "dropped_documents"):
        if any(count[label] for count in counts.values()):
            cells = (f"{count[label]:,}" for count in counts.values())
            table.add_row(f"{label.split('_')[1]} without tokens", *cells)
    console = escaping.console()
    console.print(table)
    megabytes = sum(count["text_bytes"] for count in counts.values()) / 1e6
    console.print(
        f"{megabytes:,.1f} MB of text in {clock(made.write_seconds)}, "
        f"{megabytes / made.write_seconds:.1f} MB/s with workers={values['workers']}"
        + (f"; vocabulary in {clock(made.learn_seconds)}" if not values["vocab"] else "")
    )
    console.print(_memory(values["workers"]))


def _memory(workers: int) -> str:
    """Return a line with the peak memory of this process and of the largest worker."""
    peaks = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    of_self, of_child = (resource.getrusage(who).ru_maxrss * RSS_UNIT / 2**20 for who in peaks)
    text = f"peak memory {of_self:,.0f} MiB"
    if workers > 1:
        text += f", and at most {of_child:,.0f} MiB in each worker"
    return text


if __name__ == "__main__":
    run(main)
