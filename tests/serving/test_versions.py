"""Versions of served models: hot swap, roll back, labels, broken versions, names."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras.errors import ArtifactError, UsageError
from bert_keras.serving import versions
from bert_keras.serving.loaded_model import LoadedModel
from bert_keras.serving.model_source import Options
from bert_keras.serving.signatures import DEFAULT, STRING, Signature, Spec
from bert_keras.serving.versions import NotFoundError, ServedModel
from tests.serving.running import running, wait_for


class FakeModel(LoadedModel):
    """A model that answers with the content of its file."""

    def __init__(self, content: str):
        super().__init__(format="saved_model", backend="none", dtype="float32")
        value = float(content)
        self.signatures = {
            DEFAULT: Signature(
                lambda columns: {"scores": np.full((len(columns["text"]), 1), value, np.float32)},
                {"text": Spec(STRING, (None,))},
                {"scores": Spec("float32", (None, None))},
            )
        }
        self.task = "text_regression"


@pytest.fixture(autouse=True)
def _fake_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open versions as `FakeModel`; a file without a number is broken."""

    def open_model(path: str, options: Options) -> LoadedModel:
        del options
        content = Path(path, "saved_model.pb").read_text()
        try:
            return FakeModel(content)
        except ValueError:
            raise ArtifactError(f"{path}: is damaged.") from None

    monkeypatch.setattr(versions, "open_model", open_model)


def write(folder: Path, number: int, content: str = "") -> Path:
    """Write a version as an export does: under another name first."""
    path = folder / f".tmp-{number}"
    path.mkdir(parents=True)
    (path / "saved_model.pb").write_text(content or str(number))
    return path.rename(folder / str(number))


def answer(version: versions.Version) -> float:
    signature = version.model.signatures[DEFAULT]
    job = version.batcher.submit(signature, {"text": ["a"]}, 1)
    return job.future.result(20)["scores"].item()


def look(model: ServedModel) -> None:
    """Look for versions twice: a new one is loaded when two looks find the same files."""
    model.refresh()
    model.refresh()


def states(model: ServedModel) -> dict[int, str]:
    return {number: state for number, state, _ in model.states()}


def served(folder: Path, labels: dict[str, int] | None = None) -> ServedModel:
    return ServedModel("m", str(folder), labels, options=Options())


def test_the_newest_version_replaces_the_one_before(tmp_path: Path) -> None:
    write(tmp_path, 1)
    write(tmp_path, 2)
    model = served(tmp_path)
    assert answer(model.version()) == 2.0
    write(tmp_path, 10)
    assert answer(model.version()) == 2.0
    look(model)
    assert answer(model.version()) == 10.0
    assert states(model) == {10: "AVAILABLE"}
    with pytest.raises(NotFoundError, match=r"version 2 .* not loaded; loaded: 10"):
        model.version(2)
    model.close()


def test_a_removed_version_is_rolled_back(tmp_path: Path) -> None:
    write(tmp_path, 1)
    newest = write(tmp_path, 2)
    model = served(tmp_path)
    shutil.rmtree(newest)
    look(model)
    assert answer(model.version()) == 1.0
    shutil.rmtree(tmp_path / "1")  # the last one is kept in memory
    look(model)
    assert answer(model.version()) == 1.0
    model.close()


@pytest.mark.parametrize("content", ["broken", "nan"])
def test_a_broken_version_is_never_served(tmp_path: Path, content: str) -> None:
    write(tmp_path, 1)
    model = served(tmp_path)
    broken = write(tmp_path, 2, content)
    for _ in range(2):
        look(model)
        assert answer(model.version()) == 1.0
        assert states(model) == {2: "END", 1: "AVAILABLE"}
    (message,) = [message for number, _, message in model.states() if number == 2]
    assert str(tmp_path) not in message
    (broken / "saved_model.pb").write_text("2.5")  # mended in place
    look(model)
    assert answer(model.version()) == 2.5
    assert states(model) == {2: "AVAILABLE"}
    model.close()


def test_a_server_starts_with_the_newest_version_that_loads(tmp_path: Path) -> None:
    write(tmp_path, 1)
    write(tmp_path, 2, "broken")
    model = served(tmp_path)
    assert answer(model.version()) == 1.0
    model.close()
    only = tmp_path / "only"
    write(only, 1, "broken")
    with pytest.raises(ArtifactError, match="damaged"):
        served(only)


def test_a_label_keeps_its_version(tmp_path: Path) -> None:
    write(tmp_path, 1)
    write(tmp_path, 2)
    model = served(tmp_path, {"stable": 1})
    assert answer(model.version()) == 2.0
    assert answer(model.version(label="stable")) == answer(model.version(1)) == 1.0
    write(tmp_path, 3)
    look(model)
    assert states(model) == {3: "AVAILABLE", 1: "AVAILABLE"}
    with pytest.raises(NotFoundError, match="'canary'"):
        model.version(label="canary")
    model.close()
    with pytest.raises(UsageError, match=r"no version 7, .* Versions: 1, 2, 3"):
        served(tmp_path, {"stable": 7})


def test_the_queue_of_a_label_is_counted_too(tmp_path: Path) -> None:
    write(tmp_path, 1)
    write(tmp_path, 2)
    with running({"m": tmp_path}, ["m:stable=1"]) as server:
        model = server.server.service.models["m"]
        entered, may_go = threading.Event(), threading.Event()

        def slow(columns: Any) -> Any:
            entered.set()
            assert may_go.wait(20)
            return {"scores": np.ones((len(columns["text"]), 1), np.float32)}

        signature = Signature(slow, {"text": Spec(STRING, (None,))}, {})
        jobs = [model.version(label="stable").batcher.submit(signature, {"text": ["a"]}, 1)]
        assert entered.wait(20)
        jobs.append(model.version(label="stable").batcher.submit(signature, {"text": ["b"]}, 1))
        assert 'bert_keras_queue_rows{model="m"} 1.0' in server.client.get("/metrics").text
        may_go.set()
        for job in jobs:
            job.future.result(20)


def test_a_broken_version_leaves_the_newest_one_beside_a_label(tmp_path: Path) -> None:
    write(tmp_path, 1)
    write(tmp_path, 4)
    model = served(tmp_path, {"stable": 1})
    write(tmp_path, 5, "broken")
    look(model)
    assert answer(model.version()) == 4.0
    assert states(model) == {5: "END", 4: "AVAILABLE", 1: "AVAILABLE"}
    shutil.rmtree(tmp_path / "5")
    look(model)
    assert states(model) == {4: "AVAILABLE", 1: "AVAILABLE"}
    shutil.rmtree(tmp_path / "1")  # the label's version
    look(model)
    with pytest.raises(NotFoundError, match=r"version 1 .* not loaded; loaded: 4"):
        model.version(label="stable")
    model.close()


def test_a_label_of_a_broken_version_is_told_and_nothing_stays_loaded(tmp_path: Path) -> None:
    """The error is that of the label's version, not of the newest; no thread is left."""
    for number, content in ((1, "broken"), (2, ""), (3, "broken")):
        write(tmp_path, number, content)
    with pytest.raises(ArtifactError, match=r"/1: is damaged"):
        ServedModel("unloaded", str(tmp_path), {"stable": 1}, options=Options())
    assert "model unloaded" not in [thread.name for thread in threading.enumerate()]


def test_states_can_be_read_while_versions_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread reads the states before, during and after a load."""
    write(tmp_path, 1)
    model = served(tmp_path)
    opened, seen = versions.open_model, []
    before = model._failures

    def and_look(path: str, options: Options) -> LoadedModel:
        seen.append(states(model))
        return opened(path, options)

    monkeypatch.setattr(versions, "open_model", and_look)
    write(tmp_path, 2, "broken")
    look(model)
    assert seen == [{2: "LOADING", 1: "AVAILABLE"}]
    assert states(model) == {2: "END", 1: "AVAILABLE"}
    assert before == {}  # a reader may iterate over it
    model.close()


def test_a_version_that_is_being_copied_is_not_loaded(tmp_path: Path) -> None:
    write(tmp_path, 1)
    model = served(tmp_path)
    (tmp_path / "2").mkdir()
    for name in ("saved_model.pb", "weights", "labels"):
        (tmp_path / "2" / name).write_text("2")
        model.refresh()
        assert states(model) == {1: "AVAILABLE"}
    model.refresh()
    assert states(model) == {2: "AVAILABLE"}
    model.close()


def test_a_version_that_changes_while_it_is_loaded_is_loaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, 1)
    model = served(tmp_path)
    folder = write(tmp_path, 2)
    open_model = versions.open_model

    def and_change(path: str, options: Options) -> LoadedModel:
        opened = open_model(path, options)
        (folder / "saved_model.pb").write_text("2.25")
        monkeypatch.setattr(versions, "open_model", open_model)
        return opened

    monkeypatch.setattr(versions, "open_model", and_change)
    look(model)
    assert answer(model.version()) == 1.0
    look(model)
    assert answer(model.version()) == 2.25
    model.close()


def test_folders_of_other_names_are_no_versions(tmp_path: Path) -> None:
    write(tmp_path, 1)
    for name in ("02", "1.5", "-3", "9" * 30, "\u0663", "3.tmp", "tmp"):
        shutil.copytree(tmp_path / "1", tmp_path / name)
    (tmp_path / "7").symlink_to(tmp_path / "nothing")
    (tmp_path / "6").symlink_to(tmp_path / "tmp")
    model = served(tmp_path)
    assert states(model) == {6: "AVAILABLE"}
    (tmp_path / "6").unlink()
    look(model)
    assert states(model) == {1: "AVAILABLE"}
    model.close()


def test_one_version_is_not_watched(tmp_path: Path) -> None:
    write(tmp_path, 3)
    model = served(tmp_path / "3")
    write(tmp_path, 4)
    look(model)
    assert states(model) == {3: "AVAILABLE"}
    model.close()
    with pytest.raises(UsageError, match="numbered versions"):
        served(tmp_path / "3", {"stable": 3})


def test_waiting_requests_are_answered_by_the_version_that_they_met(tmp_path: Path) -> None:
    write(tmp_path, 1)
    model = served(tmp_path)
    old = model.version()
    entered, may_go = threading.Event(), threading.Event()

    def slow(columns: Any) -> Any:
        entered.set()
        assert may_go.wait(20)
        return {"scores": np.ones((len(columns["text"]), 1), np.float32)}

    signature = Signature(slow, {"text": Spec(STRING, (None,))}, {})
    running_job = old.batcher.submit(signature, {"text": ["a"]}, 1)
    assert entered.wait(20)
    waiting = old.batcher.submit(signature, {"text": ["b"]}, 1)
    write(tmp_path, 2)
    swap = threading.Thread(target=look, args=(model,))
    swap.start()
    wait_for(lambda: model.version().number == 2)
    assert answer(model.version()) == 2.0
    may_go.set()
    swap.join(20)
    for job in (running_job, waiting):
        assert job.future.result(20)["scores"].tolist() == [[1.0]]
    model.close()


def test_requests_go_on_while_versions_change(tmp_path: Path) -> None:
    """Every request is answered, by a version that was there."""
    write(tmp_path, 1)
    with running({"m": tmp_path}, poll_seconds=0.01) as server:
        stop, failures, seen = threading.Event(), [], set()

        def ask() -> None:
            import httpx

            with httpx.Client(base_url=server.url, timeout=30) as client:
                while not stop.is_set():
                    reply = client.post("/v1/models/m:predict", json={"instances": ["a"]})
                    if reply.status_code == 200:
                        seen.add(reply.json()["predictions"][0][0])
                    else:
                        failures.append(reply.text)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for number in range(2, 8):
            write(tmp_path, number, "broken" if number == 5 else "")
            if number != 5:
                wait_for(lambda: server.server.service.models["m"].newest.number == number)  # noqa: B023
        stop.set()
        for thread in threads:
            thread.join(30)
    assert not failures
    assert 5.0 not in seen
    assert 7.0 in seen or 6.0 in seen
