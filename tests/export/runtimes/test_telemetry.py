"""Telemetry that is switched off before and after its library is imported. See test_outputs.py."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from bert_keras.export.runtimes import telemetry


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Neither of the libraries has been imported."""
    for name in ("onnxruntime", "openvino_telemetry"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.delenv("ORT_DISABLE_TELEMETRY", raising=False)
    return monkeypatch


def test_before_the_import(modules: pytest.MonkeyPatch) -> None:
    modules.setitem(sys.modules, "openvino_telemetry", None)
    telemetry.switch_off()
    assert os.environ["ORT_DISABLE_TELEMETRY"] == "1"
    with pytest.raises(ImportError):
        __import__("openvino_telemetry")


def test_what_a_user_has_said_stays(modules: pytest.MonkeyPatch) -> None:
    modules.setenv("ORT_DISABLE_TELEMETRY", "0")
    telemetry.switch_off()
    assert os.environ["ORT_DISABLE_TELEMETRY"] == "0"


def test_after_the_import(modules: pytest.MonkeyPatch) -> None:
    class Telemetry:
        """With one instance, as in the library."""

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
    telemetry.switch_off()
    assert calls == ["off"]
    assert one.consent is False  # pyright: ignore[reportAttributeAccessIssue]
    silent = package.Telemetry(tid="x", app_name="OVC", enable_opt_in_dialog=False)
    assert silent.send_event("ovc", "version", "1") is None
    assert not hasattr(silent, "backend")
    telemetry.switch_off()  # again
    assert package.Telemetry is type(silent)
    package.Telemetry, Telemetry.instance = Telemetry, None
    telemetry.switch_off()
    assert package.Telemetry is type(silent)
