"""Fill masks with an exported SavedModel: `bert-keras fill-mask SAVED_MODEL TEXT ...`.

    bert-keras fill-mask saved_models/demo/1 --trust "The [MASK] of France is Paris."
    cat texts.txt | bert-keras fill-mask saved_models/demo/1 --trust

A SavedModel is a program, which runs with your rights. Without --trust it is refused, and its
operations that write files are listed. Texts come from the command line, or one per line from
standard input.

Exit codes: 0 done, 2 a bad command line, 3 a line that cannot be used or whose [MASK] is cut off,
4 not such a SavedModel.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from bert_keras import saved_model_loading
from bert_keras.errors import UsageError

MASK = "[MASK]"
_BAD_USAGE, _BAD_DATA, _BAD_ARTIFACT = 2, 3, 4
_BATCH_SIZE = 32

Fill = Callable[[Sequence[str]], Mapping[str, Any]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program.

    Args:
        arguments: the command line without the program's name; None for the process's own.

    Returns:
        The exit code.
    """
    parser = _parser()
    options = parser.parse_intermixed_args(arguments)  # texts may follow an option
    if not options.texts and sys.stdin.isatty():
        parser.error("no text: give some, or one per line on standard input")
    for text in options.texts:
        if MASK not in text:
            parser.error(f"no {MASK} in {text!r}")
        if text != text.encode("utf-8", "replace").decode():
            parser.error(f"not UTF-8: {text!r}")
    try:
        fill = load(options.saved_model, trust=options.trust)
    except UsageError as error:
        return _fail(error, _BAD_USAGE)
    except ValueError as error:
        return _fail(error, _BAD_ARTIFACT)
    console = Console(markup=False, emoji=False, highlight=False)
    cut: list[str] = []
    try:
        for batch in _batches(options.texts or _lines(sys.stdin.buffer)):
            fills = fill(batch)
            show(batch, fills, console)
            counts = zip(batch, fills["mask_count"], strict=True)
            cut += [text for text, count in counts if count < text.count(MASK)]
        if cut:
            others = f" and {len(cut) - 1:,} more" if len(cut) > 1 else ""
            raise ValueError(
                f"the length limit of the model cuts off a {MASK} of the text {cut[0]!r:.80}"
                f"{others}, so it is not filled. Shorten the text before its {MASK}, or export the "
                "model with a larger --max-length."
            )
    except ValueError as error:
        return _fail(error, _BAD_DATA)
    return 0


def describe(words: Sequence[str] = ()) -> str:
    """Return what `--help` prints."""
    del words
    return _parser().format_help().rstrip()


def _parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        "bert-keras fill-mask",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("saved_model", type=Path, help="an exported folder")
    parser.add_argument("texts", nargs="*", metavar="text", help=f"with one {MASK} or more")
    parser.add_argument("--trust", action="store_true", help="run this SavedModel")
    return parser


def load(folder: Path, *, trust: bool = False) -> Fill:
    """Open a SavedModel that fills masks.

    Args:
        folder: folder with saved_model.pb.
        trust: True to run a SavedModel that another process wrote.

    Returns:
        A function of texts; it returns `tokens`, `scores` [texts, masks, fills] and `mask_count`
        [texts] as arrays.

    Raises:
        UsageError: another process wrote the SavedModel, and `trust` is False.
        ValueError: the folder has no SavedModel that can be read and fills masks.
    """
    if not (folder / "saved_model.pb").is_file():
        raise ValueError(
            f"{folder}: not a SavedModel: there is no saved_model.pb in it. {_cure(folder)}"
        )
    import tensorflow as tf

    try:
        model = saved_model_loading.load(folder, trust=trust)
    except UsageError:
        raise
    except (OSError, ValueError, RuntimeError, tf.errors.OpError) as error:
        raise ValueError(
            f"{folder}: the SavedModel cannot be read: {error}. Export the model again."
        ) from error
    signature = model.signatures.get("serving_default")
    outputs = set(signature.structured_outputs) if signature else set()
    if not {"tokens", "scores", "mask_count"} <= outputs:
        raise ValueError(
            f"{folder}: the SavedModel does not fill masks: that needs the outputs tokens, scores "
            f"and mask_count. Received: {sorted(outputs)}. Export a pretrained model, or "
            "a masked language model."
        )

    def fill(texts: Sequence[str]) -> Mapping[str, Any]:
        """Return the outputs of the signature for these texts, as NumPy arrays."""
        # The function refers to the model, because the signature lives only as long as its model.
        assert model is not None
        outputs = signature(text=tf.constant(list(texts)))
        return {name: value.numpy() for name, value in outputs.items()}

    return fill


def _cure(folder: Path) -> str:
    """Return what to do with a folder that is not a SavedModel."""
    if (folder / "config.json").is_file():
        return f'It is a checkpoint: bert-keras predict {folder} "a text with {MASK}"'
    if versions := sorted(path.parent for path in folder.glob("*/saved_model.pb")):
        return f"Name the folder of a version: {versions[-1]}"
    return "Name a folder that bert-keras pretrain or export wrote: saved_models/NAME/VERSION"


def show(texts: Sequence[str], fills: Mapping[str, Any], console: Console) -> None:
    """Print each text and, below it, a line of fills for each of its masks, best first.

    Args:
        texts: the texts.
        fills: outputs of the model for them.
        console: console to print on.
    """
    for row, text in enumerate(texts):
        count = int(fills["mask_count"][row])
        console.print(Text(text, style="bold"))
        if count < text.count(MASK):
            console.print(Text(f"  cut: {text.count(MASK) - count} {MASK} lost"))
        for number in range(count):
            guesses = zip(fills["tokens"][row, number], fills["scores"][row, number], strict=True)
            line = ", ".join(f"{token.decode()} {100 * score:.1f} %" for token, score in guesses)
            name = MASK if count == 1 else f"{MASK} {number + 1}"
            console.print(Text(f"  {name}  {line}"))


def _lines(stream: Iterable[bytes]) -> Iterator[str]:
    """Yield the texts of a stream, one per line, without blank lines."""
    for number, line in enumerate(stream, 1):
        try:
            text = line.decode().strip()
        except UnicodeDecodeError as error:
            raise ValueError(
                f"standard input:{number}: the line is not UTF-8 ({error}). Convert the text to "
                "UTF-8."
            ) from error
        if text and MASK not in text:
            raise ValueError(
                f"standard input:{number}: the line has no {MASK}. Received: {text!r}. Write "
                f"{MASK} in place of the word to predict."
            )
        if text:
            yield text


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield the texts in lists of at most `_BATCH_SIZE`, as they arrive."""
    texts = iter(texts)
    while batch := list(islice(texts, _BATCH_SIZE)):
        yield batch


def _fail(error: Exception, code: int) -> int:
    """Print an error for the user, and return the exit code."""
    print(f"error: {error}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
