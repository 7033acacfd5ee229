"""`bert-keras export --measure`: exported models compared with the original model, and timed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

import typer

from bert_keras.errors import ArtifactError

SECONDS = 60.0
_LINE_SECONDS = 10.0  # between two lines of progress if stderr is not a terminal
_TOGETHER = 32  # texts in a batch of the comparison


def measure(
    predictor: Any,
    targets: Sequence[Path],
    seconds: float,
    say: Callable[[str], object],
    tables: list[Any],
) -> None:
    """Compare exported models with the original model, time both, and add a table to `tables`.

    Args:
        predictor: predictor of the model that was exported.
        targets: folders of the exports. Missing ones are skipped.
        seconds: time limit after which no call is begun, except the first of each measurement.
        say: function that shows the current work on a terminal.
        tables: list to which the table is appended, also if an error is raised.

    Raises:
        ArtifactError: if an exported model does not open or answer.
    """
    from rich.table import Column, Table

    from bert_keras.export import measurement

    columns = ["size", "difference", *(f"batch of {size}" for size in measurement.BATCHES)]
    calls = " and ".join(str(calls) for calls in measurement.CALLS.values())
    table = Table(
        Column("file", overflow="fold"),
        *(Column(name, no_wrap=True) for name in columns),
        caption=(
            f"{measurement.TEXTS} texts: the largest difference to what the model predicts; text "
            f"in, answer out, milliseconds, p50 / p99 of {calls} calls. In brackets: how many "
            "there were when the time was up"
        ),
    )
    tables.append(table)
    measuring = _Measuring(predictor, table, _Progress(say))
    failures = []
    end = monotonic() + seconds
    written = [path for path in targets if path.is_dir()]
    for number, path in enumerate([None, *written]):
        # Each model gets an equal share of the time that is left.
        share = max(0.0, end - monotonic()) / (len(written) + 1 - number)
        try:
            measuring.model(share) if path is None else measuring.exported(path, share)
        except ArtifactError as error:
            failures.append(str(error))
    if failures:
        raise ArtifactError("; ".join(failures))


class _Measuring:
    """Measurements that become the rows of a table."""

    def __init__(self, predictor: Any, table: Any, progress: _Progress):
        self._predictor, self._table, self._progress = predictor, table, progress
        predictor.on_cut = lambda _: None  # the texts are made up

    def model(self, seconds: float) -> None:
        """Time the model itself."""
        import keras

        from bert_keras.export import clients

        predictor, name = self._predictor, f"Predictor ({keras.backend.backend()})"
        model_class = type(predictor.task)
        mask = clients.mask_token_of(model_class, predictor.tokenizer)
        texts = self._texts(clients.input_names(model_class, predictor.pairs), mask)
        self._progress.tell(name)
        with suppress(ValueError):  # an ELECTRA discriminator has no prediction for texts
            end = monotonic() + seconds
            times = self._times(name, lambda batch: predictor(*batch.values()), texts, end)
            self._table.add_row(name, "", "", *times)

    def exported(self, path: Path, seconds: float) -> None:
        """Compare and time an exported model.

        Raises:
            ArtifactError: if it does not open or answer.
        """
        from bert_keras.export import measurement
        from bert_keras.export.clients import open_client

        name, end = str(path), monotonic() + seconds
        size = f"{measurement.size_of(path) / 1e6:.1f} MB"
        self._progress.tell(f"{name}: opening")
        try:
            client = open_client(path)
        except ImportError as error:  # a writer does not need the runtime to be installed
            typer.echo(f"{path}: not measured: {error}", err=True)
            self._table.add_row(name, size)
            return
        except Exception as error:
            raise ArtifactError(f"{path}: written, but does not open: {error}") from error
        texts = self._texts(client.names, client.mask)
        try:
            half = (monotonic() + end) / 2
            gap = self._difference(name, client, texts, half)
            times = self._times(name, client.answer, texts, end)
        except Exception as error:
            raise ArtifactError(f"{path}: written, but does not answer: {error}") from error
        self._table.add_row(name, size, gap, *times)

    def _texts(self, names: Sequence[str], mask: str) -> Any:
        """Return example texts for inputs of these names."""
        from bert_keras.export import clients, measurement

        return clients.example_texts(names, self._predictor.tokenizer, measurement.TEXTS, mask)

    def _difference(self, name: str, client: Any, texts: Any, end: float) -> str:
        """Return the cell with the largest difference between the export and the model."""
        from bert_keras.export import clients, measurement

        gap, done = 0.0, 0
        while done < measurement.TEXTS and (not done or monotonic() < end):
            self._progress.tell(f"{name}: compared {done}/{measurement.TEXTS} texts")
            part = clients.part_of_columns(texts, done, done + _TOGETHER)
            gap = max(gap, measurement.difference(client, self._predictor, part))
            done = min(done + _TOGETHER, measurement.TEXTS)
        return f"{gap:.2g}" + (f" ({done})" if done < measurement.TEXTS else "")

    def _times(self, name: str, answer: Any, texts: Any, end: float) -> list[str]:
        """Return the cells with the latencies, one for each batch size."""
        from bert_keras.export import measurement

        def progress(size: int, done: int, total: int) -> None:
            """Show the number of calls that are done."""
            self._progress.tell(f"{name}: batch of {size}, {done}/{total} calls")

        seconds = max(0.0, end - monotonic())
        times = measurement.latencies(answer, texts, seconds=seconds, progress=progress)
        cells = []
        for size, time in times.items():
            short = f" ({time.calls})" if time.calls < measurement.CALLS[size] else ""
            cells.append(f"{time.p50:.1f} / {time.p99:.1f}{short}")
        return cells


class _Progress:
    """Display of the current measurement: live on a terminal, else a line every ten seconds."""

    def __init__(self, say: Callable[[str], object]):
        from bert_keras import escaping

        self._say, self._is_terminal = say, escaping.console(stderr=True).is_terminal
        self._shown_at = monotonic()

    def tell(self, text: str) -> None:
        """Show a text."""
        text = f"measuring {text}"
        self._say(text)
        if not self._is_terminal and monotonic() - self._shown_at >= _LINE_SECONDS:
            self._shown_at = monotonic()
            typer.echo(text, err=True)
