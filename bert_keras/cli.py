"""`bert-keras`: the command-line program of this package, with all its commands."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from inspect import cleandoc
from pathlib import Path
from typing import Annotated, Any

import typer

from bert_keras import cli_export, cli_serve, cli_visualize, escaping, file_io, hooks, presets
from bert_keras.errors import (
    BROKEN_PIPE,
    ArtifactError,
    DataError,
    Step,
    StepsFailedError,
    Terminated,
    UsageError,
    exit_code_of,
    forget_output,
    message_of,
    quiet,
    raising_on_sigterm,
    reader_is_gone,
    run_steps,
)
from bert_keras.tokenizers import Tokenizer, backend_files, exported_tokenizer, files
from bert_keras.tokenizers.added_tokens import ADDED_TOKENS
from bert_keras.tokenizers.files import ENGINE, FILES, KNOWN

TRAIN, USE = "Train", "Use a model"
# Command -> module in bert_keras.training, summary and group in `bert-keras --help`.
PROGRAMS = {
    "prepare": ("prepare", "Write a corpus: a vocabulary, and the tokens of a text.", TRAIN),
    "pretrain": ("pretrain", "Pretrain a model on text by a recipe.", TRAIN),
    "finetune": ("finetune", "Fine-tune a model on labelled examples by a recipe.", TRAIN),
    "mine-negatives": ("mine_negatives", "Find hard negatives for pairs of texts.", TRAIN),
    "recipes": ("recipe_list", "List the recipes: task, data, measured result.", TRAIN),
    "predict": ("predict", "Label, tag, answer or encode texts, tables and lines.", USE),
    "rank": ("rank", "Rank documents for a query, or for a file of queries.", USE),
    "evaluate": ("evaluate", "Measure a fine-tuned model on labelled examples.", USE),
    "fill-mask": ("fill_mask", "Fill the masks of texts with an exported SavedModel.", USE),
}
_PASS_ON = {"ignore_unknown_options": True}


def _complete(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return completions of a word of a training program for the shell: (word, description)."""
    from bert_keras.training.recipe_help import complete_words

    words = context.params.get("words") or ()
    return complete_words(context.info_name or "", list(words), incomplete)


_Words = Annotated[list[str] | None, typer.Argument(autocompletion=_complete)]


def register_programs(app: typer.Typer) -> None:
    """Add the training programs to an app. Each one is imported when it is called."""
    for command, (module, summary, panel) in PROGRAMS.items():
        app.command(
            command,
            help=summary,
            rich_help_panel=panel,
            add_help_option=False,  # the program handles --help itself
            context_settings=_PASS_ON,
        )(_command(module))


def _command(name: str) -> Callable[..., None]:
    """Return the function of a command that runs the program of a training module."""

    def run_program(words: _Words = None) -> None:
        """Import and run the program with the words of the command line."""
        arguments = list(words or ())
        with hooks.ending_at_interrupt():
            program = importlib.import_module(f"bert_keras.training.{name}")
            from bert_keras.training.run import run

        run(program.main, arguments, describe=getattr(program, "describe", None))

    return run_program


# === Commands ===


app = typer.Typer(
    help="Pretrain, fine-tune, convert, query and export models of the BERT family.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
_CHECKPOINTS, _PRODUCTION = "Checkpoints", "Production"
register_programs(app)
app.add_typer(cli_visualize.app, name="visualize", rich_help_panel=USE)
app.command(rich_help_panel=_PRODUCTION)(cli_export.export)
app.command(rich_help_panel=_PRODUCTION)(cli_export.serve_check)
app.command(rich_help_panel=_PRODUCTION)(cli_serve.serve)


def _join_lines(program: typer.Typer) -> None:
    """Let each paragraph of a command's help flow; Typer would keep the lines of the docstring."""
    for command in program.registered_commands:
        paragraphs = cleandoc(command.help or command.callback.__doc__ or "").split("\n\n")
        command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    for group in program.registered_groups:
        if group.typer_instance is not None:
            _join_lines(group.typer_instance)


_AGAIN = "Mend this, remove the folder and repeat the command."
_SOURCE = "a folder of any format, a name of PRESETS, or hf://organisation/name[@revision]"
_Source = Annotated[str, typer.Argument(help=_SOURCE, show_default=False)]
_Pickle = Annotated[bool, typer.Option(help="read a pytorch_model.bin if no other file is there")]
_Trust = Annotated[bool, typer.Option("--trust", help="read a SavedModel that Google published")]
_Variant = Annotated[
    str | None, typer.Option(help="variant of the weights, such as fp16: model.fp16.safetensors")
]
_Averages = Annotated[
    bool, typer.Option("--averages", help="read the moving averages in a TensorFlow checkpoint")
]


def _print_version(value: bool) -> None:
    """Print the version and end the program, if --version was passed."""
    if value:
        typer.echo(f"bert-keras {metadata.version('bert-keras')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="print the version"),
    ] = False,
) -> None:
    """Pretrain, fine-tune, convert, query and export models of the BERT family."""


@app.command(rich_help_panel=_CHECKPOINTS)
def convert(
    source: _Source,
    target: Annotated[Path, typer.Argument(help="the folder to write", show_default=False)],
    format: Annotated[  # noqa: A002
        str, typer.Option(help="hugging_face (our own format too), google_tf1 or keras_hub")
    ] = "hugging_face",
    encoder: Annotated[bool, typer.Option("--encoder", help="leave the heads out")] = False,
    allow_pickle: _Pickle = False,
    trust: _Trust = False,
    variant: _Variant = None,
    averages: _Averages = False,
) -> None:
    """Write a checkpoint in another format, with its tokenizer.

    In the format hugging_face the settings of the predictor are kept too.
    """
    from bert_keras.checkpoints import folders
    from bert_keras.loading import load_checkpoint
    from bert_keras.models import BertEncoder
    from bert_keras.predictor import PredictorConfig, read_predictor_config, write_predictor_config

    escaping.require_utf8(target, "The folder")
    write = folders.writer_of(format)  # raises an error for a wrong format before the model is read
    load = BertEncoder.from_preset if encoder else load_checkpoint
    keeps_settings = (
        format == "hugging_face" and not encoder
    )  # other formats have no predictor settings
    config = read_predictor_config(source) if keeps_settings else PredictorConfig()
    with folders.staging_folder(target) as folder, _progress():
        model: Any = load(
            source, allow_pickle=allow_pickle, trust=trust, variant=variant, averages=averages
        )
        write(model, folder)
    told = [f"{target}: a {type(model).__name__} of {model.count_params():,} parameters"]
    steps = [Step("tokenizer", lambda _: told.append(_copy_tokenizer(source, target, format)))]
    if format == folders.OUR_FORMAT:
        steps.append(Step("README.md", lambda _: _write_card(source, target, model, config)))
    if config != PredictorConfig():
        steps.append(Step("predictor.json", lambda _: write_predictor_config(target, config)))
    try:
        run_steps(steps, None, done=f"{target}: the model is written", again=_AGAIN)
    except StepsFailedError:  # says already what is written
        raise
    except Exception as error:
        error.add_note(f"{target}: the model is written and whole. {_AGAIN}")
        raise
    typer.echo("\n".join(told))


def _write_card(source: str, target: Path, model: Any, config: Any) -> None:
    """Write the model card of a converted checkpoint, which names the repository it is from."""
    from bert_keras.checkpoints import write_model_card

    try:
        tokenizer = Tokenizer.from_preset(source)
    except (ValueError, ImportError):  # none will be taken along
        tokenizer = None
    card = {"base_model": presets.repository_of(source)}
    write_model_card(target, model, tokenizer=tokenizer, config=config, card=card)


def _copy_tokenizer(source: str, target: Path, format: str) -> str:  # noqa: A002
    """Copy the tokenizer; return a line with the names of its files."""
    result = _tokenizer_files(presets.resolve_handle(source, KNOWN), target, format)
    return f"Tokenizer: {result}"


def _tokenizer_files(source: Path, target: Path, format: str) -> str:  # noqa: A002
    """Copy a tokenizer's files, or write them if the source has them in another form.

    Args:
        source: folder of the checkpoint.
        target: folder to write into.
        format: format of the new checkpoint.

    Returns:
        Names of the files, or the reason why there are none, for the user.
    """
    inner = exported_tokenizer.encoder_folder(files.transformer_folder(source))
    # Lowercasing may be a setting of sentence-transformers, beside the tokenizer.
    is_lowercased = files.lowercases(inner)
    known = *FILES, *backend_files.FILES, ADDED_TOKENS
    names = [name for name in known if (inner / name).is_file()]
    if not names and not (inner / "assets").is_dir():
        return "none found"
    try:
        tokenizer = Tokenizer.from_preset(source)
    except (ArtifactError, DataError, UsageError) as error:  # the model is written and usable
        return f"not taken along ({error})"
    if format == "keras_hub":  # KerasHub's tokenizer.json is the config of a Keras object
        return "not taken along: KerasHub's has files of its own"
    engine = inner / ENGINE
    is_theirs = engine.is_file() and files.is_keras_hub(file_io.read_object(engine, file_io.LARGE))
    if not names or is_theirs or is_lowercased:
        tokenizer.save_to_preset(target)
        names = [name for name in FILES if (target / name).is_file()]
    else:
        for name in names:
            with file_io.new_file(target / name) as copy:
                copy.write((inner / name).read_bytes())
        if Tokenizer.from_preset(target) != tokenizer:  # the model's config told its family
            tokenizer.save_to_preset(target)
            names = [name for name in (*names, *FILES) if (target / name).is_file()]
    return ", ".join(dict.fromkeys(names))


@app.command(rich_help_panel=_CHECKPOINTS)
def inspect(
    source: _Source,
    allow_pickle: _Pickle = False,
    trust: _Trust = False,
    variant: _Variant = None,
    averages: _Averages = False,
) -> None:
    """Show config, parameters and tensors, and which tensors are missing or unused."""
    from bert_keras import checkpoint_report
    from bert_keras.checkpoints import open_checkpoint

    opened = open_checkpoint(
        source, allow_pickle=allow_pickle, trust=trust, variant=variant, averages=averages
    )
    checkpoint_report.print_checkpoint(opened)


@app.command(rich_help_panel=_CHECKPOINTS)
def verify(
    first: _Source,
    second: _Source,
    tolerance: Annotated[
        float, typer.Option(help="the largest difference that is accepted")
    ] = 1e-5,
    allow_pickle: _Pickle = False,
    trust: _Trust = False,
    variant: Annotated[
        str | None, typer.Option(help="variant of the first checkpoint's weights, such as fp16")
    ] = None,
    averages: Annotated[
        bool, typer.Option("--averages", help="read the moving averages in the first checkpoint")
    ] = False,
) -> None:
    """Compare the outputs of two checkpoints; exit code 1 if they differ."""
    from bert_keras import checkpoint_report
    from bert_keras.loading import load_checkpoint

    with _progress():
        models = [
            load_checkpoint(source, allow_pickle=allow_pickle, trust=trust, **reading)
            for source, reading in (
                (first, {"variant": variant, "averages": averages}),
                (second, {}),
            )
        ]
    largest = checkpoint_report.print_comparison(
        *models, folder=presets.resolve_handle(first, KNOWN)
    )
    if not largest <= tolerance:
        typer.echo(f"They differ by up to {largest:.3g}, more than {tolerance:g}.")
        raise typer.Exit(1)
    typer.echo(f"Equal: no difference above {largest:.3g} (tolerance {tolerance:g}).")


@app.command(rich_help_panel=_CHECKPOINTS)
def push(
    source: Annotated[
        Path, typer.Argument(help="a checkpoint folder, or the folder of a run", show_default=False)
    ],
    target: Annotated[
        str, typer.Argument(help="hf://organisation/name[@branch]", show_default=False)
    ],
    public: Annotated[
        bool, typer.Option("--public", help="create a public repository, not a private one")
    ] = False,
    message: Annotated[str, typer.Option(help="message of the commit")] = "",
) -> None:
    """Upload a model to the Hugging Face Hub; print its address."""
    from bert_keras.checkpoints.hub_upload import push as upload

    typer.echo(upload(file_io.expanded(source), target, private=not public, message=message))


@contextmanager
def _progress() -> Iterator[None]:
    """Show the progress of reading and writing checkpoints, if stderr is a terminal."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    from bert_keras.checkpoints import streaming

    tasks: dict[str, Any] = {}
    columns = TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn()
    console = escaping.console(stderr=True)
    is_hidden = not console.is_terminal  # otherwise `rich` writes a blank line into a file
    with Progress(*columns, console=console, transient=True, disable=is_hidden) as display:

        def show(what: str, done: int, total: int) -> None:
            """Update the progress bar of a piece of work."""
            if what not in tasks:
                tasks[what] = display.add_task(what, total=total)
            display.update(tasks[what], completed=done, total=total)

        with streaming.reported(show):
            yield


def _exit_code(end: SystemExit) -> Any:
    """Return the exit code of a command, also if stdout is a closed pipe, which Typer hides.

    Raises:
        BrokenPipeError: another pipe is closed.
    """
    try:
        sys.stdout.flush()
    except BrokenPipeError as error:
        end.__context__ = error
    if isinstance(end.__context__, BrokenPipeError):
        # Typer's help has already put the null device in the place of stdout.
        is_null = os.path.samestat(os.fstat(sys.stdout.fileno()), os.stat(os.devnull))  # noqa: PTH116
        if not is_null and not reader_is_gone():
            raise end.__context__
        return BROKEN_PIPE
    return end.code


def main() -> None:
    """Run the program. An error that the user can mend becomes one message and an exit code."""
    stdout = sys.stdout
    try:
        quiet()
        escaping.escape_streams()
        _join_lines(app)
        with raising_on_sigterm():
            try:
                app(prog_name="bert-keras")
            except SystemExit as end:
                sys.stdout = stdout  # Typer wraps it if a pipe is closed
                sys.exit(_exit_code(end))
    except KeyboardInterrupt:
        typer.echo("error: interrupted", err=True)
        sys.exit(hooks.INTERRUPTED)
    except Terminated as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except Exception as error:
        is_missing = isinstance(error, ImportError)  # a library of an extra is not installed
        code = UsageError.exit_code if is_missing else exit_code_of(error)
        if code is None:
            raise
        typer.echo(f"error: {message_of(error)}", err=True)
        forget_output()
        sys.exit(code)
