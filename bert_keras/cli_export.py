"""`bert-keras export` and `bert-keras serve-check`: export of models, and checks of exports."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from bert_keras import cli_measure, escaping, file_io
from bert_keras.errors import ArtifactError, DataError, Step, UsageError, run_steps

_Formats = Annotated[
    list[str],
    typer.Option(
        "--format",
        help="saved_model, tf_hub, onnx, openvino, litert or torch; may be given several times",
    ),
]
_Quantizations = Annotated[
    list[str],
    typer.Option("--quantization", help="none, float16, int8, or of onnx int8_dynamic; repeatable"),
]

_TOGETHER = 32  # examples of a file in one batch


def export(
    source: Annotated[str, typer.Argument(help="a checkpoint folder with its tokenizer")],
    formats: _Formats = ["saved_model"],  # noqa: B006
    quantizations: _Quantizations = ["none"],  # noqa: B006
    task: Annotated[
        str, typer.Option(help="as_trained, texts or pairs (what the model takes), or encoder")
    ] = "as_trained",
    name: Annotated[str, typer.Option(help="name of the model; by default its folder's")] = "",
    version: Annotated[int | None, typer.Option(min=1, help="by default the next one")] = None,
    folder: Annotated[Path, typer.Option(help="folder of all models")] = Path("saved_models"),
    max_length: Annotated[
        int | None, typer.Option(help="most tokens of a text; by default the folder's value")
    ] = None,
    portable: Annotated[
        bool, typer.Option("--portable", help="a SavedModel that needs no tensorflow-text")
    ] = False,
    ids_only: Annotated[
        bool,
        typer.Option("--ids-only", help="a SavedModel that takes ids, for any kind of tokenizer"),
    ] = False,
    measure: Annotated[
        bool, typer.Option("--measure", help="compare what was written with the model, and time it")
    ] = False,
    measure_seconds: Annotated[
        float | None,
        typer.Option(help=f"most seconds for --measure; by default {cli_measure.SECONDS:g}"),
    ] = None,
    allow_pickle: Annotated[bool, typer.Option(help="read a pytorch_model.bin")] = False,
    trust: Annotated[bool, typer.Option("--trust", help="read a SavedModel from Google")] = False,
    variant: Annotated[
        str | None, typer.Option(help="variant of the weights, such as fp16")
    ] = None,
    averages: Annotated[
        bool, typer.Option("--averages", help="read the moving averages in a TensorFlow checkpoint")
    ] = False,
) -> None:
    """Write a model as FOLDER/NAME/VERSION/ in each format.

    For formats other than saved_model, NAME includes format and quantisation, as in demo-onnx-int8.
    For a task other than as_trained it includes the task. No version is overwritten.
    """
    from bert_keras.export.export_folder import next_version
    from bert_keras.export.export_preset import AS, export_as, open_preset, require_libraries

    if measure_seconds is not None and not (measure and 0 < measure_seconds < math.inf):
        needs = "must be above 0" if measure else "limits --measure, which is not given"
        raise UsageError(f"--measure-seconds {needs}. Received: {measure_seconds:g}")
    wanted = list(_wanted(formats, quantizations, portable=portable, ids_only=ids_only))
    name = name or (source.split("@")[0] if source.startswith("hf://") else source)
    parts = [Path(name).resolve().name] + ([] if task == AS else [task])
    targets = []
    for option in wanted:
        require_libraries(option)
        parent = folder / "-".join(parts if option.name == "saved_model" else [*parts, option.name])
        targets.append(next_version(parent) if version is None else parent / str(version))
    for path in targets:
        escaping.require_utf8(path, "The folder")
    if taken := [str(path) for path in targets if path.exists()]:
        raise UsageError(
            f"{', '.join(taken)}: exists already and is not overwritten. Give another --version, "
            "or leave it out for the next one."
        )
    tables: list[Any] = []
    try:
        with _Status(f"{source}: reading") as say:
            predictor = open_preset(
                source,
                task=task,
                max_length=max_length,
                allow_pickle=allow_pickle,
                trust=trust,
                variant=variant,
                averages=averages,
            )

            def write(wanted_format: Any, path: Path) -> None:
                """Write one export and print its folder."""
                say(f"{path}: writing")
                _export(export_as, wanted_format, predictor, path)
                say.print(f"{path}/")

            steps = [
                Step(str(path), lambda _, option=option, path=path: write(option, path))
                for option, path in zip(wanted, targets, strict=True)
            ]
            if measure:
                needs = [str(path) for path in targets] if len(targets) == 1 else []
                seconds = measure_seconds or cli_measure.SECONDS
                steps.append(
                    Step(
                        "measurement",
                        lambda _: cli_measure.measure(predictor, targets, seconds, say, tables),
                        needs,
                    )
                )
            run_steps(steps, None, done=f"{source}: opened", again="Repeat the command for those.")
    finally:
        for table in tables:
            escaping.console().print(table)


def _wanted(formats: Sequence[str], quantizations: Sequence[str], **flags: bool) -> Iterator:
    """Yield the options of every export: each format with each quantisation.

    SavedModels cannot be quantised. They are exported once if "none" is among the quantisations.
    """
    from bert_keras.export.export_preset import Wanted
    from bert_keras.export.runtimes.formats import FORMATS

    unique = list(dict.fromkeys(quantizations))
    for format_ in dict.fromkeys(formats):
        is_plain = format_ not in FORMATS and "none" in unique
        for quantization in ["none"] if is_plain else unique:
            yield Wanted(format_, None if quantization == "none" else quantization, **flags)


def _export(export_as: Any, wanted: Any, predictor: Any, path: Path) -> None:
    """Export a model, and raise `UsageError` if it does not have this kind of export."""
    try:
        export_as(wanted, predictor, path)
    except (TypeError, ValueError) as error:
        if hasattr(error, "exit_code"):
            raise
        raise UsageError(str(error)) from error


def serve_check(
    folder: Annotated[Path, typer.Argument(help="an exported model", show_default=False)],
    texts: Annotated[
        Path | None, typer.Argument(help="file with a text or a JSON object of inputs on each line")
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="run a SavedModel: a program with your rights")
    ] = False,
) -> None:
    """Load an exported model as a client does, print its answers to examples, and check it.

    A SavedModel is a program, and this command runs it. Without --trust it is refused, and its
    operations that write files are listed. Exit code 4 if a check fails.
    """
    from rich.text import Text

    from bert_keras.export import measurement as checking
    from bert_keras.export.clients import open_client

    with _Status(f"{folder}: loading"):
        try:
            client = open_client(folder, trust=trust)
        except (UsageError, ArtifactError, ImportError):
            raise
        except Exception as error:
            raise ArtifactError(
                f"{folder}: does not load: {error}. Export the model again."
            ) from error
    examples: Any = checking.columns_of(client, checking.EXAMPLES)
    if texts is not None:
        examples = _read(texts, client.names)
    count = len(examples[client.names[0]])
    for start in range(0, count, _TOGETHER):
        part = {name: values[start : start + _TOGETHER] for name, values in examples.items()}
        try:
            answers = client.answer(part)
        except Exception as error:
            raise ArtifactError(f"{folder}: does not answer: {error}") from error
        for row in range(len(part[client.names[0]])):
            inputs = {name: values[row] for name, values in part.items()}
            line = {**inputs, **checking.shown(answers, row)}
            typer.echo(json.dumps(line, ensure_ascii=False))
    console = escaping.console(stderr=True)
    failed = 0
    for check in checking.checks(client):
        mark = Text("passed", "green") if check.passed else Text("FAILED", "red")
        console.print(mark, f"{check.name}: {check.details}")
        failed += not check.passed
    if failed:
        raise ArtifactError(
            f"{folder}: {failed} of the checks failed. Do not serve this model; export it again."
        )


def _read(path: Path, names: Sequence[str]) -> dict[str, list[Any]]:
    """Read a file of texts or JSON objects, one on each line.

    Args:
        path: path of the file.
        names: input names of the model.

    Returns:
        Input name -> values.

    Raises:
        DataError: if a line does not have these inputs. The message names file and line.
    """
    from bert_keras.data.documents import numbered_lines

    columns: dict[str, list[Any]] = {name: [] for name in names}
    for number, line in numbered_lines(path):
        value: Any = line.rstrip("\n")
        if value.startswith("{"):
            value = file_io.decode_json(value, f"{path}:{number}", DataError)
        elif len(names) == 1:
            value = {names[0]: value}
        missing = [name for name in names if not isinstance(value, dict) or name not in value]
        if missing:
            raise DataError(
                f"{path}:{number}: lacks {', '.join(missing)}. A line is a JSON object of "
                f"{', '.join(names)}."
            )
        for name in names:
            columns[name].append(_checked(value[name], name, f"{path}:{number}: {name}"))
    if not columns[names[0]]:
        raise DataError(f"{path}: holds no text. Write a text or a JSON object on each line.")
    return columns


def _checked(value: Any, name: str, what: str) -> Any:
    """Return a text, or for "options" a list of at least two texts; `what` is for messages.

    Raises:
        DataError: if the value is something else.
    """
    from bert_keras.data.documents import text_value

    if name != "options":
        return text_value(value, what)
    if not isinstance(value, list) or len(value) < 2:
        raise DataError(f"{what} must be a list of two texts or more. Received: {value!r:.200}")
    return [text_value(option, what) for option in value]


class _Status:
    """Spinner on stderr that shows the current work, if stderr is a terminal.

    Args:
        text: first text.
    """

    def __init__(self, text: str):
        from rich.text import Text

        self._status = escaping.console(stderr=True).status(Text(text))

    def __enter__(self) -> _Status:
        """Show the spinner."""
        self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the spinner."""
        self._status.stop()

    def __call__(self, text: str) -> None:
        """Show another text."""
        from rich.text import Text

        self._status.update(Text(text))

    def print(self, line: str) -> None:
        """Print a line to stdout and hide the spinner meanwhile, which may be on the same line."""
        self._status.stop()
        typer.echo(line)
        self._status.start()
