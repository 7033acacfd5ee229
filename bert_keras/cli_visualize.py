"""`bert-keras visualize`: pictures of attention, sentence vectors, and tokens behind a label."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from bert_keras import file_io
from bert_keras.errors import DataError, UsageError

app = typer.Typer(
    help="Draw attention, a map of texts, or the tokens behind a label, as HTML, PNG or SVG.",
    no_args_is_help=True,
)

_Source = Annotated[
    str, typer.Argument(help="a checkpoint folder with its tokenizer", show_default=False)
]
_Out = Annotated[
    Path, typer.Option("--out", help="file to write: .html, .png or .svg", show_default=False)
]
_Text = Annotated[str | None, typer.Argument(help="the text, in quotes", show_default=False)]
_Pair = Annotated[str | None, typer.Argument(help="a second text, for pairs", show_default=False)]
_File = Annotated[
    Path | None, typer.Option("--file", help="file with the text; the whole file is one text")
]
_Length = Annotated[
    int | None, typer.Option(help="maximum number of tokens; a longer text is cut off")
]
_Theme = Annotated[
    str | None, typer.Option(help="light or dark, for .png and .svg; by default light")
]
_Overwrite = Annotated[bool, typer.Option("--overwrite", help="replace an existing file")]
_Pickle = Annotated[bool, typer.Option(help="read a pytorch_model.bin")]
_Trust = Annotated[bool, typer.Option("--trust", help="read a SavedModel from Google")]
_Variant = Annotated[str | None, typer.Option(help="variant of the weights, such as fp16")]
_Averages = Annotated[
    bool, typer.Option("--averages", help="read the moving averages in a TensorFlow checkpoint")
]

_TABLES = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".parquet")
# A word with one of these endings is the name of a file: if there is none, it is an error.
_ENDINGS = re.compile(r"\S*\.(csv|tsv|tab|txt|jsonl?|ndjson|parquet|gz)", re.IGNORECASE)


@app.command()
def attention(
    source: _Source,
    out: _Out,
    text: _Text = None,
    pair: _Pair = None,
    file: _File = None,
    layer: Annotated[
        int | None,
        typer.Option(help="layer to show first; 0 is the first layer, by default the last"),
    ] = None,
    head: Annotated[
        int | None,
        typer.Option(help="head to show first, from 0; by default the mean of all heads"),
    ] = None,
    max_length: _Length = None,
    theme: _Theme = None,
    overwrite: _Overwrite = False,
    allow_pickle: _Pickle = False,
    trust: _Trust = False,
    variant: _Variant = None,
    averages: _Averages = False,
) -> None:
    """Draw the attention of every layer and head as lines between tokens."""
    one = _one_text(text, file)
    target = _target(out, overwrite, theme)
    predictor = _open(
        source, allow_pickle=allow_pickle, trust=trust, variant=variant, averages=averages
    )

    def draw(visualize: Any) -> Any:
        """Return the picture."""
        options = {"layer": layer, "head": head, "max_length": max_length}
        return visualize.attention(predictor, None, one, pair, **options)

    _write(draw, target, theme)


@app.command()
def saliency(
    source: _Source,
    out: _Out,
    text: _Text = None,
    pair: _Pair = None,
    file: _File = None,
    label: Annotated[
        str | None, typer.Option(help="name of the label; by default the most probable one")
    ] = None,
    method: Annotated[
        str, typer.Option(help="integrated_gradients; or gradient_x_input, quick but inexact")
    ] = "integrated_gradients",
    max_length: _Length = None,
    theme: _Theme = None,
    overwrite: _Overwrite = False,
    allow_pickle: _Pickle = False,
    trust: _Trust = False,
    variant: _Variant = None,
    averages: _Averages = False,
) -> None:
    """Colour the tokens that speak for and against a label of a text classifier."""
    one = _one_text(text, file)
    target = _target(out, overwrite, theme)
    predictor = _open(
        source, allow_pickle=allow_pickle, trust=trust, variant=variant, averages=averages
    )

    def draw(visualize: Any) -> Any:
        """Return the picture."""
        options = {"label": label, "method": method, "max_length": max_length}
        return visualize.saliency(predictor, one, pair, **options)

    _write(draw, target, theme)


@app.command()
def embeddings(
    source: _Source,
    inputs: Annotated[
        list[str],
        typer.Argument(
            help="texts in quotes; files with a text on each line; tables (.csv, .tsv, .jsonl, "
            ".parquet)",
            show_default=False,
        ),
    ],
    out: _Out,
    text: Annotated[str, typer.Option(help="column of the texts in a table")] = "text",
    label: Annotated[
        str | None, typer.Option(help="column of the labels in a table; each label has a colour")
    ] = None,
    header: Annotated[
        bool, typer.Option(help="a table names its columns; else they are numbers from 0")
    ] = True,
    method: Annotated[str, typer.Option(help="pca or tsne")] = "pca",
    perplexity: Annotated[
        float | None, typer.Option(help="neighbours that count in t-SNE; by default 30 or fewer")
    ] = None,
    seed: Annotated[int, typer.Option(help="random seed of t-SNE")] = 0,
    projector: Annotated[
        Path | None, typer.Option(help="also write the files of TensorBoard's projector here")
    ] = None,
    theme: _Theme = None,
    overwrite: _Overwrite = False,
    allow_pickle: _Pickle = False,
    trust: _Trust = False,
    variant: _Variant = None,
    averages: _Averages = False,
) -> None:
    """Draw a map of texts: near texts have similar sentence vectors."""
    target = _target(out, overwrite, theme)
    texts, labels = _texts_and_labels(inputs, text, label, header=header)
    predictor = _open(
        source, allow_pickle=allow_pickle, trust=trust, variant=variant, averages=averages
    )

    def draw(visualize: Any) -> Any:
        """Return the picture."""
        options = {"method": method, "perplexity": perplexity, "seed": seed}
        return visualize.embeddings(predictor, texts, labels, **options)

    picture = _write(draw, target, theme)
    if projector is not None:
        folder = picture.save_projector(projector)
        typer.echo(f"{folder}/ (tensorboard --logdir {folder})")


def _one_text(text: str | None, file: Path | None) -> str:
    """Return the text of the command line or of a file.

    Raises:
        UsageError: there are both, or neither.
        DataError: the file cannot be read.
    """
    if (text is None) == (file is None):
        raise UsageError(
            "Give one text in quotes, or --file FILE. "
            f"Received: {'neither' if text is None else 'both'}."
        )
    if file is None:
        assert text is not None
        return text
    from bert_keras.data.documents import numbered_lines

    path = _existing(file_io.expanded(file))
    return "".join(line for _, line in numbered_lines(path))


def _texts_and_labels(
    inputs: Sequence[str], column: str, label: str | None, *, header: bool = True
) -> tuple[list[str], list[str] | None]:
    """Return the texts of all inputs, and their labels where `label` names a column.

    Raises:
        UsageError: a label column for inputs that are no tables, or a file that is missing.
        DataError: a file without texts, or a bad row of a table.
    """
    texts: list[str] = []
    labels: list[str] = []
    for word in inputs:
        path = file_io.expanded(word)
        # Not `Path.is_file`, which fails for a text that is too long for the name of a file.
        is_file = os.path.isfile(path) or _ENDINGS.fullmatch(word)  # noqa: PTH113
        is_table = is_file and Path(path.name.lower().removesuffix(".gz")).suffix in _TABLES
        if label is not None and not is_table:
            raise UsageError(
                f"--label names a column, and {word!r:.80} is no table. Give a .csv, .tsv, .jsonl "
                "or .parquet file, or leave --label out."
            )
        if is_table:
            texts_of_table, labels_of_table = _table(_existing(path), column, label, header=header)
            texts += texts_of_table
            labels += labels_of_table
        else:
            texts += _lines(_existing(path)) if is_file else [word]
    return texts, labels if label is not None else None


def _table(
    path: Path, column: str, label: str | None, *, header: bool
) -> tuple[list[str], list[str]]:
    """Return the texts of a table and their labels; [] without a column of labels."""
    from bert_keras.data import read_table
    from bert_keras.predictor import column_of

    try:
        rows = read_table(
            str(path),
            text=column_of(column),
            label=None if label is None else column_of(label),
            header=header,
        )
    except (DataError, UsageError):
        raise
    except (ValueError, ImportError) as error:
        raise UsageError(str(error)) from error
    return list(rows.texts), [str(target) for target in rows.targets or ()]


def _lines(path: Path) -> list[str]:
    """Return the lines of a file that are not empty.

    Raises:
        DataError: there is none.
    """
    from bert_keras.data.documents import numbered_lines

    lines = [line.strip() for _, line in numbered_lines(path)]
    if texts := [line for line in lines if line]:
        return texts
    raise DataError(f"{path}: holds no text. Write one text on each line.")


def _existing(path: Path) -> Path:
    """Return the path of a file; raise `UsageError` if there is none."""
    if not path.is_file():
        raise UsageError(f"{path}: no such file. Check the path.")
    return path


def _target(out: Path, overwrite: bool, theme: str | None) -> Path:
    """Return the file to write, before the model is opened.

    Raises:
        UsageError: another ending or theme, or the file is there.
    """
    from bert_keras.visualize.picture import checked_ending

    target = file_io.expanded(out)
    checked_ending(target, theme)
    if target.exists() and not overwrite:
        raise UsageError(f"{target}: exists already. Give another --out, or --overwrite.")
    return target


def _open(source: str, **reading: Any) -> Any:
    """Return the predictor of a model; `reading` are arguments of `load_checkpoint`."""
    from bert_keras.predictor import Predictor

    predictor = Predictor.from_preset(source, **reading)
    predictor.on_cut = _tell_cut
    return predictor


def _tell_cut(cut: Any) -> None:
    """Print how many texts are cut, if any."""
    if cut:
        typer.echo(str(cut), err=True)


def _write(draw: Callable[[Any], Any], target: Path, theme: Any) -> Any:
    """Draw a picture, write it and print its name; return the picture.

    Raises:
        UsageError: the model has no such picture, or an argument is out of range.
    """
    from bert_keras import visualize

    with _as_usage_errors():
        picture = draw(visualize)
    typer.echo(str(picture.save(target, theme=theme)))
    return picture


@contextmanager
def _as_usage_errors() -> Iterator[None]:
    """Raise `UsageError` for an argument that a function of `visualize` refuses."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if hasattr(error, "exit_code"):
            raise
        raise UsageError(str(error)) from error
