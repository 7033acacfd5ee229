"""The progress display on a terminal and in plain lines."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from bert_keras.training import progress
from bert_keras.training.progress import Pace, Progress, clock, task


class _Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    time = _Clock()
    monkeypatch.setattr(progress, "monotonic", time)
    return time


def _console(*, terminal: bool = False) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=100, _environ={})


def _shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_plain_lines_come_every_ten_seconds_and_at_intervals(time: _Clock) -> None:
    console = _console()
    with Progress(1_000, console=console) as shown:
        for step in range(1, 31):
            time.now += 1
            shown.update(step, {"loss": 8.0 - step / 10}, ends_interval=step == 15)

    assert [line.split("  ")[0] for line in _shown(console).splitlines()] == [
        "step 10/1,000 (1 %)",
        "step 15/1,000 (2 %)",
        "step 25/1,000 (2 %)",
        "step 30/1,000 (3 %)",  # the last step is always shown
    ]


def test_a_plain_line_has_every_value_that_is_known(time: _Clock) -> None:
    console = _console()
    values = {
        "loss": 6.25,
        "mlm_loss": 5.5,
        "nsp_loss": 0.75,
        "mlm_accuracy": 0.123,
        "nsp_accuracy": 0.61,
        "tokens_per_second": 12345.6,
        "padding_share": 0.031,
        "something_else": 1.0,
    }
    with Progress(100, 10, console=console) as shown:
        shown.update(11, values)
        time.now += 2
        shown.update(15, ends_interval=True)

    assert _shown(console) == (
        "step 15/100 (15 %)  loss 6.250 = MLM 5.500 + NSP 0.750  MLM accuracy 12.3 %"
        "  NSP accuracy 61.0 %  12,346 tokens/s  padding 3.1 %  ETA 0:42\n"
    )


def test_what_is_no_step_is_shown_until_the_next_one(time: _Clock) -> None:
    console = _console()
    with Progress(100, console=console) as shown:
        time.now += 10
        shown.update(50, {"loss": 1.5})
        for done in range(0, 41, 10):
            shown.aside(done, 40, "measuring")
            time.now += 6
        shown.update(50, {"val_score": 0.75}, ends_interval=True)
        shown.aside(3, None, "writing")

    assert _shown(console).splitlines() == [
        "step 50/100 (50 %)  loss 1.500",
        "step 50/100 (50 %)  loss 1.500  measuring 20/40 (50 %)",
        "step 50/100 (50 %)  loss 1.500  measuring 40/40 (100 %)",
        "step 50/100 (50 %)  loss 1.500  validation score 0.7500",
    ]


def test_a_terminal_shows_at_once_that_something_is_no_step() -> None:
    console = _console(terminal=True)
    with Progress(100, console=console) as shown:
        shown.update(50, {"loss": 1.5}, ends_interval=True)
        shown.aside(0, 40, "measuring")
        assert "measuring 0/40 (0 %)" in _shown(console)


def test_the_time_left_is_of_the_trainings_that_follow_too(time: _Clock) -> None:
    console = _console()
    with Progress(100, later_steps=200, console=console) as shown:
        for step in range(1, 41):
            time.now += 1
            shown.update(step)

    assert _shown(console).splitlines()[-1] == "step 40/100 (40 %)  ETA 4:20 (all seeds)"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"loss": 2.0}, "loss 2.000"),
        ({"loss": 2.0, "mlm_loss": 2.0}, "loss 2.000"),
        ({"loss": 2.5, "mlm_loss": 2.0, "sop_loss": 0.5}, "loss 2.500 = MLM 2.000 + SOP 0.500"),
        (
            {"loss": 7.0, "mlm_loss": 2.0, "rtd_loss": 0.1},
            "loss 7.000 = MLM 2.000 + 50 × RTD 0.100",
        ),
        ({"loss": 2.0, "mlm_loss": 2.0, "rtd_loss": 0.0}, "loss 2.000 = MLM 2.000 + RTD 0.000"),
    ],
)
def test_the_loss_is_shown_as_the_sum_that_it_is(values: dict[str, float], text: str) -> None:
    console = _console()
    with Progress(10, console=console) as shown:
        shown.update(5, values, ends_interval=True)
    assert _shown(console) == f"step 5/10 (50 %)  {text}\n"


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize(
    ("values", "last_value"),
    [
        ({"val_mlm_loss": 2.5, "val_nsp_accuracy": 0.5}, "NSP accuracy 50.0 %"),
        ({"val_score": 0.25}, "spearman 0.2500"),
    ],
)
def test_an_older_measurement_says_of_which_step_it_is(
    time: _Clock, terminal: bool, values: dict[str, float], last_value: str
) -> None:
    def shown_at(step: int, values: dict[str, float]) -> str:
        time.now += 20
        console.file.seek(0)
        console.file.truncate()
        shown.update(step, values)
        return _shown(console)

    console = _console(terminal=terminal)
    with Progress(9_000, score_name=lambda: "spearman", console=console) as shown:
        text = shown_at(1_000, values)
        assert last_value in text
        assert "(step" not in text
        assert f"{last_value} (step 1,000)" in shown_at(1_010, {"loss": 1.0})
        assert "(step" not in shown_at(2_000, values)


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize(("last", "later"), [(10, 0), (10, 90), (6, 0)])
def test_a_run_that_is_over_shows_no_time_left(
    time: _Clock, terminal: bool, last: int, later: int
) -> None:
    """A run shows no remaining time after its last step, or after it was stopped."""
    console = _console(terminal=terminal)
    with Progress(10, later_steps=later, console=console) as shown:
        for step in range(1, last + 1):
            time.now += 5
            shown.update(step)
        before = len(_shown(console))
        assert ("ETA" in _shown(console)) == (terminal or last > 3)
    assert "ETA" not in _shown(console)[before:]
    if not terminal and not later:
        assert f"step {last}/10" in _shown(console).splitlines()[-1]


def test_notes_are_text_and_not_markup() -> None:
    console = _console()
    with Progress(10, console=console) as shown:
        shown.note("the [MASK] is [bold]" + " long" * 40)

    assert _shown(console) == "the [MASK] is [bold]" + " long" * 40 + "\n"


def test_a_terminal_gets_a_live_display() -> None:
    console = _console(terminal=True)
    with Progress(1_000, console=console) as shown:
        assert "the first steps take longest" in _shown(console)
        shown.note("[MASK] filled")
        shown.update(500, {"loss": 5.5, "nsp_accuracy": 0.5}, ends_interval=True)

    text = _shown(console)
    assert "[MASK] filled" in text
    assert "step 500/1,000" in text
    assert "loss 5.500 · NSP accuracy 50.0 %" in text
    assert text.index("[MASK] filled") < text.index("step 500/1,000")


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    def picture(**environment: str) -> str:
        console = Console(
            file=io.StringIO(), force_terminal=True, color_system="standard", _environ=environment
        )
        with Progress(10, console=console) as shown:
            shown.update(5, {"loss": 1.0}, ends_interval=True)
        return _shown(console)

    assert "\x1b[9" in picture()
    assert "\x1b[9" not in picture(NO_COLOR="1")


def test_an_error_ends_the_display_and_is_not_swallowed() -> None:
    console = _console(terminal=True)
    with pytest.raises(KeyError), Progress(10, console=console):
        raise KeyError
    assert _shown(console).endswith("\x1b[?25h")  # the cursor is visible again


def test_a_task_in_plain_lines(time: _Clock) -> None:
    console = _console()
    with task("learning the vocabulary", console=console) as advance:
        for done in range(31):
            time.now += 1
            advance(done * 1_000, None if done < 15 else 30_000, "counting [words]")

    assert _shown(console).splitlines() == [
        "learning the vocabulary …",
        "learning the vocabulary: counting [words] 9,000",
        "learning the vocabulary: counting [words] 19,000/30,000 (63 %)",
        "learning the vocabulary: counting [words] 29,000/30,000 (97 %)",
        "learning the vocabulary: done in 0:31",
    ]


def test_a_task_on_a_terminal() -> None:
    console = _console(terminal=True)
    with task("corpus", console=console) as advance:
        advance(5, None, "reading [x]")
        advance(10, 10, "corpus")

    text = _shown(console)
    assert "corpus: reading [x]" in text
    assert "10/10 (100 %)" in text


def test_a_failed_task_is_not_done() -> None:
    console = _console()
    with pytest.raises(KeyError), task("corpus", console=console):
        raise KeyError
    assert _shown(console) == "corpus …\n"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (754, "12:34"), (3723, "1:02:03")]
)
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


@pytest.mark.parametrize("terminal", [False, True])
def test_a_display_that_cannot_be_written_ends_no_training(time: _Clock, terminal: bool) -> None:
    class Full(io.StringIO):
        def write(self, _text: str) -> int:
            raise OSError(28, "No space left on device")

    console = Console(file=Full(), force_terminal=terminal, width=100, _environ={})
    done = []
    with Progress(4, console=console) as shown:
        for step in range(1, 5):
            time.now += 20
            shown.update(step, {"loss": 1.0}, ends_interval=True)
            shown.aside(1, 2, "measuring")
            shown.note("a line")
            done.append(step)
    with task("corpus", console=console) as show:
        time.now += 20
        show(1, 2, "documents")
        done.append("task")
    assert done == [1, 2, 3, 4, "task"]


# === The remaining time


def test_it_is_not_known_before_the_second_step() -> None:
    pace = Pace(10)
    assert pace.seconds_left is None
    pace.step(1.0, 1)
    assert pace.seconds_left is None
    pace.step(3.0, 2)
    assert pace.seconds_left == pytest.approx(8 * 2.0)
    pace.step(5.0, 10)
    assert pace.seconds_left == 0


def test_the_speed_is_that_of_the_last_minute() -> None:
    pace, now = Pace(1_000), 0.0
    for step in range(1, 11):  # the first steps are slow
        now += 100
        pace.step(now, step)
    for step in range(11, 200):
        now += 1
        pace.step(now, step)
    assert pace.seconds_left == pytest.approx(1_000 - 199)


def test_what_goes_aside_counts_as_often_as_before() -> None:
    pace, now = Pace(1_000, start_step=100), 0.0
    for step in range(101, 201):
        now += 1
        pace.step(now, step)
        if step % 50 == 0:
            pace.aside(now)
            pace.aside(now + 75)  # longer than the period that determines the speed
            now += 100
            pace.step(now, step)
    assert pace.seconds_left == pytest.approx(800 * (1 + 200 / 100))


def test_trainings_that_follow_count() -> None:
    pace = Pace(100, later_steps=200)
    for step in range(1, 41):
        pace.step(float(step), step)
    assert pace.seconds_left == pytest.approx(60 + 200)
