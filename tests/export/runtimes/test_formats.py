"""The backend that writes each format, and the packages to install if it is missing."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bert_keras.errors import ArtifactError
from bert_keras.export.runtimes import switch_off_telemetry
from bert_keras.export.runtimes.formats import (
    FILE,
    FORMATS,
    Manifest,
    chosen,
    flat,
    input_axes,
    output_axes,
)
from bert_keras.models import (
    BertEncoder,
    MaskedLM,
    MultipleChoice,
    SentencePairs,
    TokenClassifier,
)
from tests.contracts import TINY


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch):
    def only(*names: str) -> None:
        here = SimpleNamespace()
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name: here if name in names else None
        )

    return only


def test_this_backend_where_it_can_else_another(installed) -> None:
    installed("torch", "onnx", "onnxscript", "tensorflow", "tf2onnx", "onnxruntime", "onnx_ir")
    onnx = FORMATS["onnx"]
    assert [onnx.backend(name, None) for name in ("tensorflow", "torch", "jax")] == [
        *("tensorflow", "torch", "torch")
    ]
    assert FORMATS["litert"].backend("torch", "int8") == "tensorflow"
    installed("tensorflow", "onnx", "tf2onnx", "onnxruntime", "onnx_ir")
    assert onnx.backend("jax", "int8") == "tensorflow"


def test_what_is_missing_is_named(installed) -> None:
    installed("torch", "onnx", "onnxscript")
    assert FORMATS["onnx"].backend("jax", None) == "torch"
    with pytest.raises(ImportError, match=r"onnxruntime, onnx_ir\. .*bert-keras\[onnx,torch\]"):
        FORMATS["onnx"].backend("torch", "int8")
    with pytest.raises(ImportError, match=r"tensorflow\. Install.*bert-keras\[litert,tensorflow\]"):
        FORMATS["litert"].backend("jax", None)


def test_what_there_is_not_is_told() -> None:
    assert chosen("onnx", "int8_dynamic") is FORMATS["onnx"]
    with pytest.raises(ValueError, match=r"format must be one of onnx, .*'onyx'"):
        chosen("onyx", None)
    with pytest.raises(ValueError, match=r"of litert is none, or one of float16, int8\. Received"):
        chosen("litert", "int8_dynamic")


def test_every_format_has_its_module() -> None:
    for name, each in FORMATS.items():
        found = importlib.util.find_spec(f"bert_keras.export.runtimes.{each.module}")
        assert found is not None, name


# === Telemetry is off whether its library is imported earlier or later. See test_outputs.py ===


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Remove the imported libraries from `sys.modules`."""
    for name in ("onnxruntime", "openvino_telemetry"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.delenv("ORT_DISABLE_TELEMETRY", raising=False)
    return monkeypatch


def test_before_the_import(modules: pytest.MonkeyPatch) -> None:
    """Telemetry is switched off before its library is imported."""
    modules.setitem(sys.modules, "openvino_telemetry", None)
    switch_off_telemetry()
    assert os.environ["ORT_DISABLE_TELEMETRY"] == "1"
    with pytest.raises(ImportError):
        __import__("openvino_telemetry")


def test_what_a_user_has_said_stays(modules: pytest.MonkeyPatch) -> None:
    """A setting of the user is kept."""
    modules.setenv("ORT_DISABLE_TELEMETRY", "0")
    switch_off_telemetry()
    assert os.environ["ORT_DISABLE_TELEMETRY"] == "0"


def test_after_the_import(modules: pytest.MonkeyPatch) -> None:
    """Telemetry is switched off after its library was imported."""

    class Telemetry:
        """Stand-in for the library's telemetry class, which has one instance."""

        instance: Any = None

        def __new__(cls, name: str = "") -> Telemetry:
            if not name and cls.instance is None:
                raise RuntimeError("not configured")
            cls.instance = cls.instance or super().__new__(cls)
            return cls.instance

    calls: list[str] = []
    off = SimpleNamespace(disable_telemetry_events=lambda: calls.append("off"))
    package: Any = SimpleNamespace(Telemetry=Telemetry)
    modules.setitem(sys.modules, "onnxruntime", off)  # pyright: ignore[reportArgumentType]
    modules.setitem(sys.modules, "openvino_telemetry", package)
    one = Telemetry("app")
    one.consent = True  # pyright: ignore[reportAttributeAccessIssue]
    switch_off_telemetry()
    assert calls == ["off"]
    assert one.consent is False  # pyright: ignore[reportAttributeAccessIssue]
    silent = package.Telemetry(tid="x", app_name="OVC", enable_opt_in_dialog=False)
    assert silent.send_event("ovc", "version", "1") is None
    assert not hasattr(silent, "backend")
    switch_off_telemetry()  # a second call
    assert package.Telemetry is type(silent)
    package.Telemetry, Telemetry.instance = Telemetry, None
    switch_off_telemetry()
    assert package.Telemetry is type(silent)


# === Exported models show the names of their open axes ===


ROWS = ("batch", "length")


@pytest.mark.parametrize(
    ("make", "token_ids", "outputs"),
    [
        (TokenClassifier, ROWS, {"tags": ("batch", "length", 2)}),
        (MaskedLM, ROWS, {"mlm": ("batch", "predictions", 50)}),
        (MultipleChoice, ("batch", "texts", "length"), {"choice": ("batch", "texts")}),
        (SentencePairs, ("batch", "texts", "length"), {"match": ("batch", "texts", 8)}),
    ],
)
def test_names(make, token_ids, outputs) -> None:
    sizes = (2,) if make is TokenClassifier else ()
    model = make(BertEncoder(TINY), *sizes)
    assert input_axes(model)["token_ids"] == token_ids
    assert output_axes(model) == outputs


def test_tuples_are_numbered() -> None:
    encoder = BertEncoder(TINY, hidden_states=True, attentions=True)
    found = output_axes(encoder)
    assert [name for name in found if "_" in name and name[-1].isdigit()] == [
        *(f"hidden_states_{number}" for number in range(3)),
        *(f"attentions_{number}" for number in range(2)),
    ]
    assert found["attentions_1"] == ("batch", 2, "length", "length")
    assert input_axes(MaskedLM(encoder))["mask_positions"] == ("batch", "predictions")
    assert flat({"a": 1, "b": (2, 3)}) == {"a": 1, "b_0": 2, "b_1": 3}


# === A manifest is read as it was written, or refused ===


WRITTEN = Manifest(
    format="onnx",
    quantization="int8",
    task="QuestionAnswerer",
    max_length=384,
    options={"null_threshold": 0.5},
    pairs=False,
    pad_id=0,
    inputs={"token_ids": ["batch", "length"]},
    outputs={"start": ["batch", "length"]},
    prompt="query: ",
    prompt_length=3,
)


def test_round_trip(tmp_path: Path) -> None:
    WRITTEN.write(tmp_path)
    assert Manifest.read(tmp_path) == WRITTEN


def test_what_earlier_versions_did_not_write_has_no_effect(tmp_path: Path) -> None:
    WRITTEN.write(tmp_path)
    values = json.loads((tmp_path / FILE).read_text())
    del values["prompt"], values["prompt_length"]
    (tmp_path / FILE).write_text(json.dumps(values))
    assert Manifest.read(tmp_path) == dataclasses.replace(WRITTEN, prompt="", prompt_length=0)


@pytest.mark.parametrize(
    ("text", "message"), [("{", "not JSON"), ('{"format": "onnx"}', "lacks inputs, max_length")]
)
def test_damaged(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ArtifactError, match=rf"export\.json: {message}"):
        Manifest.read(tmp_path)


@pytest.mark.parametrize(
    ("name", "value"), [("max_length", "long"), ("task", None), ("inputs", []), ("prompt", 1)]
)
def test_of_other_types(tmp_path: Path, name: str, value: object) -> None:
    """A manifest value of another type is refused with the name of its key."""
    WRITTEN.write(tmp_path)
    values = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps(values | {name: value}))
    with pytest.raises(ArtifactError, match=rf"export\.json: {name} has a value of another type"):
        Manifest.read(tmp_path)
