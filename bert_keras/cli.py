"""`bert-keras`: the one command of this package."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from bert_keras import cli_export, cli_programs, escaping, handles, strict_json
from bert_keras.errors import ArtifactError, DataError, UsageError
from bert_keras.programs import (
    Step,
    StepsFailedError,
    exit_code_of,
    forget_output,
    message_of,
    quiet,
    run_steps,
)
from bert_keras.tokenizers import Tokenizer, engine_files, keras_hub_files, sentence_files
from bert_keras.tokenizers.files import ENGINE, FILES, KNOWN

app = typer.Typer(
    help="Pretrain, fine-tune, open, convert, ask and export models of the BERT family.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
_CHECKPOINTS, _PRODUCTION = "Checkpoints", "Production"
cli_programs.register(app)
app.command(rich_help_panel=_PRODUCTION)(cli_export.export)
app.command(rich_help_panel=_PRODUCTION)(cli_export.serve_check)

_AGAIN = "Mend this, remove the folder and repeat the command."
_TABLES = (".csv", ".tsv", ".parquet")
_SOURCE = "a folder of any format, a name of PRESETS, or hf://organisation/name[@revision]"
_Source = Annotated[str, typer.Argument(help=_SOURCE, show_default=False)]
_Pickle = Annotated[bool, typer.Option(help="read a pytorch_model.bin where there is no other")]
_Trust = Annotated[
    bool, typer.Option("--trust", help="read the variables of a SavedModel of Google's")
]


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"bert-keras {metadata.version('bert-keras')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="its number")
    ] = False,
) -> None:
    """Pretrain, fine-tune, open, convert, ask and export models of the BERT family."""


@app.command(rich_help_panel=_CHECKPOINTS)
def convert(
    source: _Source,
    target: Annotated[Path, typer.Argument(help="the folder to make", show_default=False)],
    format: Annotated[  # noqa: A002
        str, typer.Option(help="hugging_face (also ours), google_tf1 or keras_hub")
    ] = "hugging_face",
    encoder: Annotated[bool, typer.Option("--encoder", help="leave the heads out")] = False,
    allow_pickle: _Pickle = False,
    trust: _Trust = False,
) -> None:
    """Writes a checkpoint in another format; its tokenizer's files are copied."""
    from bert_keras.checkpoints import api
    from bert_keras.predictor import PredictorConfig, read_predictor_config, write_predictor_config

    escaping.require_utf8(target, "The folder")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"{target}: exists already and is not written over. Name another folder.")
    write = api.writer_of(format)  # now, not when the model is read
    load = api.load_encoder if encoder else api.load_checkpoint
    is_whole = format == "hugging_face" and not encoder  # the others have no place for it
    asked = read_predictor_config(source) if is_whole else PredictorConfig()
    with _progress():
        model: Any = load(source, allow_pickle=allow_pickle, trust=trust)
        write(model, target)
    typer.echo(f"{target}: a {type(model).__name__} of {model.count_params():,} parameters")
    steps = [Step("tokenizer", lambda _: _tell_tokenizer(source, target, format))]
    if asked != PredictorConfig():
        steps.append(Step("predictor.json", lambda _: write_predictor_config(target, asked)))
    try:
        run_steps(steps, None, done=f"{target}: the model is written", again=_AGAIN)
    except StepsFailedError:
        raise
    except Exception as error:
        error.add_note(f"{target}: the model is written and whole. {_AGAIN}")
        raise


def _tell_tokenizer(source: str, target: Path, format: str) -> None:  # noqa: A002
    found = _take_tokenizer(handles.resolve(source, KNOWN), target, format)
    typer.echo(f"Tokenizer: {found}")


def _take_tokenizer(source: Path, target: Path, format: str) -> str:  # noqa: A002
    """Copies a tokenizer's files, or writes them where the source has them in another form."""
    inner = sentence_files.transformer_folder(source)
    is_told = sentence_files.lowercases(inner)  # outside the tokenizer's own files
    names = [name for name in (*FILES, *engine_files.FILES) if (inner / name).is_file()]
    if not names and not (source / "assets").is_dir():
        return "none found"
    try:
        tokenizer = Tokenizer.from_preset(source)
    except (ArtifactError, DataError, UsageError) as error:  # the model is written, and good
        return f"not taken along ({error})"
    if format == "keras_hub":  # whose tokenizer.json is another thing
        return "not taken along: KerasHub's has files of its own"
    engine = inner / ENGINE
    is_theirs = engine.is_file() and keras_hub_files.is_one(
        strict_json.read_object(engine, strict_json.LARGE)
    )
    if not names or is_theirs or is_told:
        tokenizer.save_to_preset(target)
        names = [name for name in FILES if (target / name).is_file()]
    else:
        for name in names:
            shutil.copyfile(inner / name, target / name)
    return ", ".join(names)


@app.command(rich_help_panel=_CHECKPOINTS)
def inspect(source: _Source, allow_pickle: _Pickle = False, trust: _Trust = False) -> None:
    """Shows config, parameters and tensors, and which of them are missing or extra."""
    from bert_keras.checkpoints import api, report

    opened = api.open_checkpoint(source, allow_pickle=allow_pickle, trust=trust)
    report.print_checkpoint(opened)


@app.command(rich_help_panel=_CHECKPOINTS)
def verify(
    first: _Source,
    second: _Source,
    tolerance: Annotated[
        float, typer.Option(help="the largest difference that is let pass")
    ] = 1e-5,
    allow_pickle: _Pickle = False,
    trust: _Trust = False,
) -> None:
    """Compares what two checkpoints compute; exit code 1 if they differ."""
    from bert_keras.checkpoints import api, report

    with _progress():
        models = [
            api.load_checkpoint(each, allow_pickle=allow_pickle, trust=trust)
            for each in (first, second)
        ]
    largest = report.print_comparison(*models, folder=handles.resolve(first, KNOWN))
    if not largest <= tolerance:
        typer.echo(f"They differ by up to {largest:.3g}, more than {tolerance:g}.")
        raise typer.Exit(1)
    typer.echo(f"Equal: no difference above {largest:.3g} (tolerance {tolerance:g}).")


@app.command(rich_help_panel=cli_programs.USE)
def predict(
    source: _Source,
    files: Annotated[
        list[Path] | None, typer.Argument(help="a text a line; - or none: standard input")
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(help="most tokens of a text; else what the model's folder says")
    ] = None,
    batch_size: Annotated[int, typer.Option(help="texts that run together")] = 32,
    null_threshold: Annotated[
        float | None,
        typer.Option(help="of questions: no answer where that is likelier by more than this"),
    ] = None,
    prompt_name: Annotated[
        str | None,
        typer.Option(help="of vectors: the model's prompt of this name, before each text"),
    ] = None,
    allow_pickle: _Pickle = False,
    trust: _Trust = False,
) -> None:
    """Answers every line with a line of JSON: labels, entities, answers, fills or vectors.

    A line is a text, or a JSON object: {"text", "pair"}; {"question", "context"}; {"prompt",
    "options"}. Tables are for bert-keras predict.
    """
    from bert_keras.inference.prompts import prompt_of
    from bert_keras.models import QuestionAnswerer, SentenceEncoder, SentencePairs
    from bert_keras.predictor import Predictor, predict_lines

    if tables := [str(path) for path in files or () if path.suffix in _TABLES]:
        raise UsageError(
            f"{', '.join(tables)}: a table, not a text a line. bert-keras predict reads "
            "tables; or give its texts as the lines of a .txt or .jsonl file."
        )
    sizes: dict[str, Any] = {"batch_size": batch_size, "max_length": max_length}
    try:
        predictor = Predictor.from_preset(source, **sizes, allow_pickle=allow_pickle, trust=trust)
    except (ArtifactError, DataError, UsageError):
        raise
    except ValueError as error:
        raise UsageError(str(error)) from error
    model = predictor.task
    if null_threshold is not None and not isinstance(model, QuestionAnswerer):
        raise UsageError(f"--null-threshold is for questions. {source}: a {type(model).__name__}.")
    options: dict[str, Any] = {"null_threshold": null_threshold, "prompt_name": prompt_name}
    options = {name: value for name, value in options.items() if value is not None}
    if prompt_name is not None:
        try:
            prompt_of(model.options, prompt_name=prompt_name)
        except ValueError as error:
            raise UsageError(f"--prompt-name: {error}") from error
        if not isinstance(model, SentenceEncoder | SentencePairs) or "label" in model.output:
            raise UsageError(f"--prompt-name is for vectors. {source}: a {type(model).__name__}.")
    for path in files or [Path("-")]:
        name = "standard input" if str(path) == "-" else str(path)
        lines = _standard_input() if str(path) == "-" else _lines(path)
        for answer in predict_lines(predictor, lines, name, **options):
            typer.echo(answer)


def _lines(path: Path) -> Iterator[str]:
    from bert_keras.data.text_files import numbered_lines

    return (line for _, line in numbered_lines(path))


def _standard_input() -> Iterator[str]:
    lines = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig")
    try:
        yield from lines
    except UnicodeDecodeError as error:
        raise DataError(f"standard input: not UTF-8 ({error}). Convert it first.") from error
    finally:
        lines.detach()  # which closes standard input otherwise


@contextmanager
def _progress() -> Iterator[None]:
    """Shows how far the reading and writing of checkpoints is; nothing where nobody looks."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    from bert_keras.checkpoints import transfer

    tasks: dict[str, Any] = {}
    columns = TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn()
    with Progress(*columns, console=escaping.console(stderr=True), transient=True) as display:

        def show(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = display.add_task(what, total=total)
            display.update(tasks[what], completed=done, total=total)

        with transfer.reported(show):
            yield


def main() -> None:
    """The program; an error that the user can mend is one message, and its exit code."""
    quiet()
    escaping.escape_streams()
    try:
        app(prog_name="bert-keras")
    except Exception as error:
        is_missing = isinstance(error, ImportError)  # a library that an extra brings
        code = UsageError.exit_code if is_missing else exit_code_of(error)
        if code is None:
            raise
        typer.echo(f"error: {message_of(error)}", err=True)
        forget_output()
        sys.exit(code)
