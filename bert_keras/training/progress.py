"""Display of a working program: live on a terminal, plain lines elsewhere, with speed and ETA."""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Callable, Generator, Mapping
from time import monotonic
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, ProgressColumn, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from bert_keras import escaping

_SECONDS = 60.0  # length of the time over which the speed is measured


class Pace:
    """Estimator of the time that is left, from the times of steps and of other work between them.

    Args:
        total_steps: steps of the whole training.
        start_step: step at which the training begins.
        later_steps: steps of trainings that follow, such as those with other seeds.
    """

    def __init__(self, total_steps: int, start_step: int = 0, later_steps: int = 0):
        self._total, self._later = total_steps, later_steps
        self._start = self._step = start_step
        self._marks: deque[tuple[float, int]] = deque()
        self._aside_since: float | None = None
        self._aside_seconds = 0.0

    def aside(self, now: float) -> None:
        """Note work other than a step; the first call begins it, and the next step ends it."""
        if self._aside_since is None:
            self._aside_since = now

    def step(self, now: float, step: int) -> None:
        """Note that `step` steps are done at the time `now`, in seconds."""
        if self._aside_since is not None:
            away, self._aside_since = now - self._aside_since, None
            self._aside_seconds += away
            self._marks = deque((at + away, marked) for at, marked in self._marks)
        self._step = step
        self._marks.append((now, step))
        while len(self._marks) > 2 and self._marks[1][0] <= now - _SECONDS:
            self._marks.popleft()

    @property
    def seconds_left(self) -> float | None:
        """Seconds that are left at the speed of the last minute; None before it is known.

        The estimate includes other work, with its average time for a step until now.
        """
        if len(self._marks) < 2 or self._marks[-1][1] <= self._marks[0][1]:
            return None
        (start, first), (end, last) = self._marks[0], self._marks[-1]
        aside = self._aside_seconds / max(1, self._step - self._start)
        left = max(0, self._total - self._step) + self._later
        return ((end - start) / (last - first) + aside) * left


# === Display ===
# All of it goes to stderr. Nothing here starts a thread: the display is drawn within the calls, so
# that worker processes can be forked at any time.


_LINE_SECONDS = 10.0  # between two plain lines
_DRAW_SECONDS = 0.1  # between two pictures of the live display
_LOSSES = {"mlm": "MLM", "nsp": "NSP", "sop": "SOP", "rtd": "RTD"}
# Key of metrics.jsonl -> format of its value, in the order of the display.
_TRAINING = {f"{key}_accuracy": f"{name} accuracy {{:.1%}}" for key, name in _LOSSES.items()}
_VALIDATION = {"val_mlm_loss": "MLM loss {:.3f}"} | {
    f"val_{key}": text for key, text in _TRAINING.items() if not key.startswith("mlm")
}
_SCORE = "val_score"  # on the validation examples of a fine-tuning
_SPEED = {
    "tokens_per_second": "{:,.0f} tokens/s",
    "padding_share": "padding {:.1%}",
    "waiting_share": "waiting for data {:.1%}",
}


class Progress:
    """Display of a training run, as a context manager.

    If the display cannot be written, because the terminal is closed or the disk of a log is full,
    the training goes on without it.

    Args:
        total_steps: steps of the whole training.
        start_step: step at which the training begins, after a resume.
        later_steps: steps of trainings that follow, which count in the time that is left.
        score_name: function that returns the name of the metric in `val_score`.
        console: console to write to; stderr by default. `NO_COLOR` is respected.
    """

    def __init__(
        self,
        total_steps: int,
        start_step: int = 0,
        *,
        later_steps: int = 0,
        score_name: Callable[[], str] = lambda: "score",
        console: Console | None = None,
    ) -> None:
        self._console = console or escaping.console(stderr=True)
        self._total = total_steps
        self._step = start_step
        self._pace = Pace(total_steps, start_step, later_steps)
        self._score_name = score_name
        self._whose = " (all seeds)" if later_steps else ""
        self._values: dict[str, float] = {}
        self._measured_step = start_step  # step at which the validation values were measured
        self._is_over = False
        self._shown_at = monotonic()
        self._shown_step = start_step
        self._live: Live | None = None
        self._aside = ""  # progress of work that is no step, such as measuring; "" for none

    def __enter__(self) -> Progress:
        """Start the live display if the console is a terminal."""
        with contextlib.suppress(OSError):
            if _is_live(self._console):
                self._live = Live(
                    self._picture(),
                    console=self._console,
                    auto_refresh=False,
                    # Rich would print a piped stdout on the terminal.
                    redirect_stdout=sys.stdout.isatty(),
                )
                self._live.start(refresh=True)
        return self

    def __exit__(
        self,
        error_class: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the live display, or print the last line if it was not printed."""
        self._is_over = True
        with contextlib.suppress(OSError):
            if self._live is not None:
                live, self._live = self._live, None
                live.update(self._picture(), refresh=True)
                live.stop()
            elif self._shown_step != self._step:
                self._print_line()

    def update(
        self, step: int, values: Mapping[str, float] | None = None, *, ends_interval: bool = False
    ) -> None:
        """Show that `step` steps are done.

        Args:
            step: steps done since the beginning of the training.
            values: new values by the keys of metrics.jsonl; the others keep their last values.
            ends_interval: whether a logging interval ends here; its end always gets a plain line.
        """
        now = monotonic()
        self._aside = ""
        self._step = step
        self._values.update(values or {})
        if any(name.startswith("val_") for name in values or {}):
            self._measured_step = step
        self._pace.step(now, step)
        self._show(now, at_once=ends_interval)

    def aside(self, done: int, total: int | None, what: str) -> None:
        """Show the progress of work other than a step, such as measuring; the next step ends it.

        Args:
            done: number of parts that are done; 0 at the beginning.
            total: number of all parts; None if it is not known.
            what: name of the work in a word or two.
        """
        now = monotonic()
        begins = not self._aside
        self._pace.aside(now)
        self._aside = f"{what} {_count(done, total)}" if done or total else f"{what} …"
        self._show(now, at_once=begins and self._live is not None)

    def note(self, text: str) -> None:
        """Print a line that stays, above the live display."""
        _print(self._console, text)

    def _show(self, now: float, *, at_once: bool) -> None:
        """Update the live display, or print a line, after enough time or `at_once`."""
        waited = now - self._shown_at
        if self._live is not None:
            if at_once or waited >= _DRAW_SECONDS:
                self._shown_at = now
                with contextlib.suppress(OSError):
                    self._live.update(self._picture(), refresh=True)
        elif at_once or waited >= _LINE_SECONDS:
            self._print_line()

    def _rows(self) -> dict[str, list[str]]:
        """Return the texts of the latest values, by the name of their line.

        "validation" has the values of a pretraining on validation documents, or the score of a
        fine-tuning. A line without values is left out.
        """
        of_training = [_loss(self._values)] if "loss" in self._values else []
        score = {_SCORE: f"{self._score_name()} {{:.4f}}"}
        validation = self._known(_VALIDATION | score)
        if validation and self._measured_step != self._step:
            # Older values say at which step they were measured.
            validation[-1] += f" (step {self._measured_step:,})"
        rows = {
            "training": of_training + self._known(_TRAINING),
            "validation": validation,
            "speed": [*self._known(_SPEED), *filter(None, [self._aside])],
        }
        return {name: texts for name, texts in rows.items() if texts}

    def _known(self, shown: Mapping[str, str]) -> list[str]:
        """Return the known values as texts; `shown` has a format for each key of metrics.jsonl."""
        known = [
            text.format(self._values[key]) for key, text in shown.items() if key in self._values
        ]
        return [text.replace("%", " %") for text in known]

    def _remaining(self) -> str:
        """Return the time that is left; "" where it is not known or nothing is left."""
        left = None if self._is_over else self._pace.seconds_left
        return "" if not left else f"ETA {clock(left)}{self._whose}"

    def _print_line(self) -> None:
        """Print step, values and remaining time as one line, for output that is not a terminal."""
        self._shown_at = monotonic()
        self._shown_step = self._step
        texts = [f"step {_count(self._step, self._total)}"]
        for name, parts in self._rows().items():
            texts += [f"{name} {part}" for part in parts] if name == "validation" else parts
        self.note("  ".join(filter(None, [*texts, self._remaining()])))

    def _picture(self) -> Group:
        """Return the live display: a progress bar with remaining time, and rows of values."""
        line = Table.grid(padding=(0, 1), expand=True)
        line.add_column(no_wrap=True)
        line.add_column(ratio=1)
        line.add_column(no_wrap=True, justify="right")
        end = "" if self._is_over or self._step >= self._total else "ETA –"
        line.add_row(
            f"step {self._step:,}/{self._total:,}",
            ProgressBar(total=self._total, completed=self._step),
            self._remaining() or end,
        )
        rows = self._rows()
        if not self._values:
            rows = {"training": ["the first steps take longest: compiling"], **rows}
        details = Table.grid(padding=(0, 2))
        details.add_column(no_wrap=True, style="dim")
        details.add_column()
        for name, texts in rows.items():
            details.add_row(name, Text(" · ".join(texts)))
        return Group(line, details)


def _loss(values: Mapping[str, float]) -> str:
    """Return the loss as the sum that it is: "loss 7.000 = MLM 6.300 + NSP 0.700"."""
    total = values["loss"]
    terms = {
        name: values[f"{key}_loss"] for key, name in _LOSSES.items() if f"{key}_loss" in values
    }
    if len(terms) < 2:
        return f"loss {total:.3f}"
    (first, one), (second, other) = terms.items()
    weight = (total - one) / other if other else 1.0  # of replaced tokens; 1 for pairs
    factor = "" if abs(weight - 1) < 0.01 else f"{weight:.3g} × "
    return f"loss {total:.3f} = {first} {one:.3f} + {factor}{second} {other:.3f}"


@contextlib.contextmanager
def task(
    what: str, *, console: Console | None = None
) -> Generator[Callable[[int, int | None, str], None]]:
    """Show the progress of a task, whose parts need not be known before it begins.

    Args:
        what: name of the task in a few words.
        console: console to write to; stderr by default.

    Yields:
        A function `progress(done, total, part)`, to be called during the task.
    """
    console = console or escaping.console(stderr=True)
    start = monotonic()
    if _is_live(console):
        bars = Bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            _Count(),
            TimeElapsedColumn(),
            console=console,
            auto_refresh=False,
            redirect_stdout=sys.stdout.isatty(),
        )
        with contextlib.suppress(OSError):
            bars.start()
        try:
            yield _bars_callback(bars, what)
        finally:
            with contextlib.suppress(OSError):
                bars.stop()
        return
    _print(console, f"{what} …")
    yield _lines_callback(console, what)
    _print(console, f"{what}: done in {clock(monotonic() - start)}")


def _print(console: Console, text: str) -> None:
    """Print a line. A console that cannot be written to is ignored, so that the task goes on."""
    with contextlib.suppress(OSError):
        console.print(text, markup=False, highlight=False, soft_wrap=True)


class _Count(ProgressColumn):
    """Column with the progress of a task in its own unit."""

    def render(self, task: Task) -> Text:
        """Return the text of the column for a task."""
        return Text(_count(int(task.completed), None if task.total is None else int(task.total)))


def _bars_callback(bars: Bars, what: str) -> Callable[[int, int | None, str], None]:
    """Return a progress callback that draws one bar for each part of a task."""
    tasks: dict[str, TaskID] = {}
    drawn = 0.0

    def progress(done: int, total: int | None, part: str) -> None:
        """Update the bar of a part, and draw all bars if enough time has passed."""
        nonlocal drawn
        new = part not in tasks
        with contextlib.suppress(OSError):
            if new:
                tasks[part] = bars.add_task(_name(what, part), total=None)
            bars.update(tasks[part], completed=done, total=total)
            if new or done == total or monotonic() - drawn >= _DRAW_SECONDS:
                drawn = monotonic()
                bars.refresh()

    return progress


def _lines_callback(console: Console, what: str) -> Callable[[int, int | None, str], None]:
    """Return a progress callback that prints a line from time to time."""
    printed = monotonic()

    def progress(done: int, total: int | None, part: str) -> None:
        """Print the progress of a part if enough time has passed."""
        nonlocal printed
        if monotonic() - printed >= _LINE_SECONDS:
            printed = monotonic()
            line = f"{_name(what, part)} {_count(done, total)}"
            _print(console, line)

    return progress


def _name(what: str, part: str) -> str:
    """Return the name of a task, with that of its part if they differ."""
    return what if part in ("", what) else f"{what}: {part}"


def _count(done: int, total: int | None) -> str:
    """Return a count as "1,200", or with its total as "1,200/4,800 (25 %)"."""
    return f"{done:,}" if not total else f"{done:,}/{total:,} ({100 * done / total:.0f} %)"


def _is_live(console: Console) -> bool:
    """Return whether a console can redraw lines: a terminal that is not a dumb one."""
    return console.is_terminal and not console.is_dumb_terminal


def clock(seconds: float) -> str:
    """Return a duration as 0:07, 12:34 or 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
