"""The commands `bert-keras export` and `bert-keras serve-check`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import keras
import pytest
import typer

from bert_keras import cli_export
from bert_keras.errors import ResourceError
from bert_keras.export import export_preset
from bert_keras.models import BertEncoder, SequenceClassifier
from bert_keras.predictor import Predictor
from bert_keras.tokenizers import Tokenizer
from tests.contracts import TINY, as_trained

BACKEND = keras.backend.backend()
# The format that this backend exports without a second process.
FORMAT = {"tensorflow": "saved_model", "torch": "torch", "jax": "onnx"}[BACKEND]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]
pytest.importorskip("onnxruntime" if BACKEND == "jax" else BACKEND)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli_export") / "demo"
    config = TINY.replace(vocab_size=len(VOCABULARY), max_positions=64)
    task = as_trained(SequenceClassifier(BertEncoder(config), 2, labels=["good", "bad"]))
    Predictor(task, Tokenizer(VOCABULARY), pairs=True).save_to_preset(path)
    return path


def not_installed(_: Path) -> None:
    raise ImportError("no such library")


def test_export_and_check(call, source: Path, tmp_path: Path) -> None:
    options = ("--folder", tmp_path / "models", "--format", FORMAT, "--portable")
    done = call("export", source, *options, "--measure", "--measure-seconds", 1)
    assert done.code == 0, done.err
    name = "demo" if FORMAT == "saved_model" else f"demo-{FORMAT}"
    path = tmp_path / "models" / name / "1"
    assert done.out.startswith(f"{path}/\n")
    lines = [line for line in done.out.splitlines() if "│" in line]
    row = next(line for line in lines if f"{name}/1" in line).split("│")
    assert float(row[3].split()[0]) < 1e-5  # with the number of texts, if time was short
    assert f"Predictor ({BACKEND})" in done.out
    assert call("export", source, *options, "--version", 1).code == 2
    done = call("export", source, *options, "--task", "texts")
    other = name.replace("demo", "demo-texts")
    assert done.out == f"{tmp_path / 'models' / other / '1'}/\n"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bert_keras.export.clients.open_client", not_installed)
        done = call("export", source, *options, "--measure")
    assert (done.code, "not measured: no such library" in done.err) == (0, True)
    assert (path.parent / "2").is_dir()

    done = call("serve-check", path)
    assert done.code == 0, done.err
    answers = [json.loads(line) for line in done.out.splitlines()]
    assert len(answers) == 3
    assert answers[0].keys() >= {"text", "pair", "label"}
    assert done.err.count("passed") == done.err.count(":") >= 4

    if FORMAT == "saved_model":
        with (path / "saved_model.pb").open("ab") as file:
            file.write(b"\x08\x01")  # other bytes, as of another process
        done = call("serve-check", path)
        assert (done.code, done.out) == (2, "")
        assert "None of its operations writes files" in done.err
        assert "--trust" in done.err
    trust = ["--trust"] * (FORMAT == "saved_model")
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"text": "a b", "pair": "c"}\n{"text": "a"}\n', encoding="utf-8")
    done = call("serve-check", path, texts, *trust)
    assert (done.code, "texts.jsonl:2: lacks pair" in done.err) == (3, True)
    texts.write_text('{"text": "a b", "pair": 5}\n', encoding="utf-8")
    done = call("serve-check", path, texts, *trust)
    assert (done.code, "texts.jsonl:1: pair must be text. Received: 5" in done.err) == (3, True)


def test_a_folder_that_is_not_there(call, tmp_path: Path) -> None:
    pytest.importorskip("tensorflow_text")  # a SavedModel needs it, which is checked first
    assert call("export", tmp_path / "none", "--folder", tmp_path / "models").code == 4


def test_what_cannot_be(call, source: Path, tmp_path: Path) -> None:
    options = ("--folder", tmp_path / "models")
    assert "format must be one of" in call("export", source, *options, "--format", "keras").err
    done = call("export", source, *options, "--quantization", "int8")
    assert (done.code, "Only onnx, openvino" in done.err) == (2, True)
    done = call("export", source, *options, "--format", "onnx", "--quantization", "int4")
    assert (done.code, "The quantization of onnx is none, or one of" in done.err) == (2, True)
    done = call("export", source, *options, "--measure-seconds", 5)
    assert (done.code, "limits --measure, which is not given" in done.err) == (2, True)
    for seconds in ("0", "-1", "nan", "inf"):
        done = call("export", source, *options, "--measure", "--measure-seconds", seconds)
        assert (done.code, "must be above 0" in done.err) == (2, True), seconds
    done = call("serve-check", tmp_path / "[/none]")
    assert (done.code, "[/none]: holds no exported model" in done.err) == (2, True)
    done = call("serve-check", tmp_path)
    assert (done.code, "holds no exported model" in done.err) == (2, True)
    (tmp_path / "export.json").write_text("{}")
    done = call("serve-check", tmp_path)
    assert (done.code, "lacks format" in done.err) == (4, True)
    assert not (tmp_path / "models").exists()


def test_a_format_that_fails_takes_no_other_with_it(
    call, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def export_as(wanted: Any, _predictor: Any, path: Path) -> None:
        if wanted.format in failing:
            raise ResourceError(f"{path}: could not be written: No space left on device.")
        path.mkdir(parents=True)

    monkeypatch.setattr(export_preset, "require_libraries", lambda _: None)
    monkeypatch.setattr(export_preset, "export_as", export_as)
    options = ("--folder", tmp_path)
    failing = {"saved_model", "onnx"}
    three = [part for name in ("onnx", "saved_model", "torch") for part in ("--format", name)]
    done = call("export", source, *options, *three)
    assert done.code == 5
    assert done.out == f"{tmp_path / 'demo-torch' / '1'}/\n"
    assert "but 2 of 3 last steps failed:" in done.err
    assert f"{tmp_path / 'demo-onnx' / '1'}: could not be written" in done.err
    done = call("export", source, *options, "--format", "onnx")
    assert done.code == 5
    assert done.err == f"error: {tmp_path / 'demo-onnx' / '1'}: could not be written: " + (
        "No space left on device.\n"
    )
    failing = set()
    done = call("export", source, *options, "--measure", "--format", "openvino", "--format", "onnx")
    assert done.code == 4  # the replaced export wrote no model, so none opens
    assert "demo-onnx/1: written, but does not open" in done.err
    assert "demo-openvino/1: written, but does not open" in done.err
    assert f"Predictor ({BACKEND})" in done.out


def test_a_printed_line_does_not_stand_behind_the_spinner(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich then writes as to a terminal
    with cli_export._Status("writing") as status:
        is_live = []
        monkeypatch.setattr(
            typer, "echo", lambda line: is_live.append((line, status._status._live.is_started))
        )
        status.print("models/demo/1/")
        assert is_live == [("models/demo/1/", False)]
        assert status._status._live.is_started
    assert "writing" in capsys.readouterr().err
