"""Measurements of exported models within a time limit."""

from __future__ import annotations

import io
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from bert_keras import cli_measure
from bert_keras.errors import ArtifactError
from bert_keras.export import clients, measurement
from bert_keras.models.with_tokenizer import AnswersTexts


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return a simulated clock: an answer takes one second, a comparison of 32 texts two."""
    clock = Clock()
    monkeypatch.setattr(cli_measure, "monotonic", clock)
    monkeypatch.setattr(measurement.time, "perf_counter", clock)
    monkeypatch.setattr(clients, "example_texts", lambda *_: {"text": ["a"] * measurement.TEXTS})
    monkeypatch.setattr(clients, "mask_token_of", lambda *_: "")

    def difference(*_: Any) -> float:
        clock.now += 2.0
        return 0.25

    monkeypatch.setattr(measurement, "difference", difference)
    monkeypatch.setattr(clients, "open_client", lambda path: _client(clock, path))
    return clock


def _client(clock: Clock, path: Path) -> Any:
    def answer(*_: Any) -> None:
        clock.now += 1.0
        if path.name == "broken":
            raise ValueError("no such input")

    if path.name == "closed":
        raise ValueError("no such model")
    if path.name == "foreign":
        raise ImportError("no such library")
    return SimpleNamespace(names=("text",), mask="", answer=answer)


def _measure(clock: Clock, targets: list[Path], seconds: float, said: list[str]) -> str:
    answers = _client(clock, Path("model")).answer
    predictor: Any = type("Model", (), {"__call__": staticmethod(answers), "pairs": False})()
    predictor.task, predictor.tokenizer = AnswersTexts(), None
    tables: list[Any] = []
    try:
        cli_measure.measure(predictor, targets, seconds, said.append, tables)
    finally:
        screen = io.StringIO()
        Console(file=screen, width=150).print(*tables)
    return screen.getvalue()


def _folder(tmp_path: Path, name: str) -> Path:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "model").write_bytes(b"x" * 2_000_000)
    return folder


def test_all_calls_where_there_is_time(clock: Clock, tmp_path: Path) -> None:
    said: list[str] = []
    path = _folder(tmp_path, "good")
    text = _measure(clock, [path, tmp_path / "not_written"], 10_000, said)
    rows = [line.split("│")[1:-1] for line in text.splitlines() if line.startswith("│")]
    assert [[cell.strip() for cell in row][1:] for row in rows] == [
        ["", "", "1000.0 / 1000.0", "1000.0 / 1000.0"],
        ["2.0 MB", "0.25", "1000.0 / 1000.0", "1000.0 / 1000.0"],
    ]
    for words in (f"measuring {path}: opening", f"{path}: compared 32/200 texts"):
        assert any(words in line for line in said)
    assert said[-1].endswith("batch of 32, 25/25 calls")


def test_no_more_seconds_than_were_given(clock: Clock, tmp_path: Path) -> None:
    paths = [_folder(tmp_path, name) for name in ("first", "second")]
    text = _measure(clock, paths, 60, [])
    assert clock.now <= 60
    for row in [line.split("│") for line in text.splitlines() if "MB" in line]:
        assert row[3].strip() == "0.25 (160)"
        assert int(row[4].split("(")[1].split(")")[0]) >= 2
    clock.now = 0.0
    text = _measure(clock, paths, 1e-9, [])
    assert text.count("0.25 (32)") == 2  # the smallest number of texts
    assert clock.now < 60


def test_what_does_not_answer_is_told_in_the_end(
    clock: Clock, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [_folder(tmp_path, name) for name in ("closed", "broken", "foreign", "good")]
    with pytest.raises(ArtifactError) as error:
        _measure(clock, paths, math.inf, [])
    assert str(error.value) == (
        f"{paths[0]}: written, but does not open: no such model; "
        f"{paths[1]}: written, but does not answer: no such input"
    )
    assert f"{paths[2]}: not measured: no such library" in capsys.readouterr().err


def test_where_there_is_no_terminal_a_line_now_and_then(
    clock: Clock, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _measure(clock, [_folder(tmp_path, "good")], 10_000, [])
    lines = capsys.readouterr().err.splitlines()
    assert 5 < len(lines) <= clock.now / cli_measure._LINE_SECONDS
    assert all(line.startswith("measuring ") for line in lines)
