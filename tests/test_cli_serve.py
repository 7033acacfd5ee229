"""`bert-keras serve`: its options reach the server, and wrong ones are told."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from bert_keras import cli, cli_serve

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """Run the command; return its exit code."""
    monkeypatch.setattr(sys, "argv", ["bert-keras", "serve", *words])
    with pytest.raises(SystemExit) as end:
        cli.main()
    code = end.value.code
    assert isinstance(code, int | None)
    return code or 0


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the arguments with which the command starts the server, instead of a start."""
    from bert_keras.serving import server

    found: dict[str, Any] = {}

    def serve(models: Any, labels: Any, **options: Any) -> None:
        found.update(options, models=models, labels=labels)

    monkeypatch.setattr(server, "serve", serve)
    return found


def test_options_reach_the_server(monkeypatch, settings) -> None:
    words = [
        *("a=x", "y", "--label", "a:stable=2", "--host", "0.0.0.0", "--port", "1234"),
        *("--token", "t", "--dtype", "bfloat16", "--device", "cpu", "--max-batch", "8"),
        *("--max-wait", "5", "--max-queue", "9", "--max-texts", "7", "--max-body", "3"),
        *("--timeout", "2.5", "--cors", "https://a.example", "--token-ids", "--trust"),
        *("--allowed-host", "api.example", "--variant", "fp16", "--averages", "--allow-pickle"),
    ]
    assert run(monkeypatch, *words) == 0
    found = settings["settings"]
    assert (settings["models"], settings["labels"]) == (["a=x", "y"], ["a:stable=2"])
    assert (found.host, found.port, found.token) == ("0.0.0.0", 1234, "t")
    assert (found.options.dtype, found.options.device) == ("bfloat16", "cpu")
    assert (found.options.max_batch, found.options.max_wait) == (8, 0.005)
    assert (found.options.max_queue, found.options.trust) == (9, True)
    assert (found.limits.max_texts, found.limits.max_body) == (7, 3 * 1024)
    options = found.options
    assert (options.variant, options.averages, options.allow_pickle) == ("fp16", True, True)
    assert (found.limits.timeout, found.origins) == (2.5, ("https://a.example",))
    assert found.accepts_token_ids
    assert found.allowed_hosts == ("api.example",)


def test_the_token_may_be_in_the_environment(monkeypatch, settings) -> None:
    monkeypatch.setenv("BERT_KERAS_SERVE_TOKEN", "hidden")
    assert run(monkeypatch, "x") == 0
    assert settings["settings"].token == "hidden"
    assert settings["settings"].options.dtype is None


def test_lines_reach_a_pipe_at_once(monkeypatch) -> None:
    from bert_keras.serving import server

    raw = io.BytesIO()
    pipe = io.TextIOWrapper(raw, encoding="utf-8")
    arrived: list[bytes] = []

    def serve(models: Any, labels: Any, *, tell: Any, **options: Any) -> None:
        del models, labels, options
        tell("Page: here")
        arrived.append(raw.getvalue())

    monkeypatch.setattr(server, "serve", serve)
    monkeypatch.setattr(sys, "stdout", pipe)
    assert run(monkeypatch, "x") == 0
    assert arrived == [f"Page: here{os.linesep}".encode()]


def test_wrong_calls_are_told(monkeypatch, capsys, tmp_path: Path) -> None:
    assert run(monkeypatch) == 2
    assert run(monkeypatch, "x", "--port", "99999") == 2
    assert run(monkeypatch, str(tmp_path / "nothing"), "--port", "0") in (2, 4)
    error = capsys.readouterr().err
    assert "nothing" in error
    assert "Traceback" not in error


def test_missing_libraries_are_named(monkeypatch, capsys) -> None:
    monkeypatch.setattr(cli_serve, "_LIBRARIES", ("no_such_library",))
    assert run(monkeypatch, "x") == 2
    assert 'pip install "bert-keras[serve]"' in capsys.readouterr().err


def test_the_extra_has_every_library() -> None:
    import tomllib

    path = Path(__file__).parents[1] / "pyproject.toml"
    extra = tomllib.loads(path.read_text())["project"]["optional-dependencies"]["serve"]
    names = {line.split(">=")[0].replace("-", "_") for line in extra}
    assert set(cli_serve._LIBRARIES) <= names
