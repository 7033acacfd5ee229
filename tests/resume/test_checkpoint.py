"""Training checkpoints on disk after saving, failures, kills and damage."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import resource
import shutil
from types import SimpleNamespace

import keras
import pytest

from bert_keras.errors import ArtifactError, NumericError, ResourceError
from bert_keras.resume import TrainingCheckpoints, checkpoint

FILES = (
    "model.safetensors",
    "optimizer.safetensors",
    "seeds.safetensors",
    "variables.json",
    "state.json",
    "MANIFEST.json",
)
CALLS = ("fsync", "rename", "replace", "rmdir", "unlink")  # These calls change the disk.


@pytest.fixture
def model(build, train):
    model = build(run_eagerly=True)
    train(model, 0, 1)
    return model


def _names(folder):
    return sorted(path.name for path in folder.iterdir())


def _interrupt(monkeypatch, point, error, for_good):
    """Make the disk call number `point` raise, and all later ones too if `for_good`.

    Returns:
        An object whose `left` is negative once that call was reached.
    """
    counter = SimpleNamespace(left=point)

    def wrap(call):
        def wrapper(*args, **kwargs):
            counter.left -= 1
            if counter.left == -1 or (for_good and counter.left < 0):
                raise error
            return call(*args, **kwargs)

        return wrapper

    for name in CALLS:
        monkeypatch.setattr(os, name, wrap(getattr(os, name)))
    monkeypatch.setattr(checkpoint, "save_file", wrap(checkpoint.save_file))
    return counter


def test_layout(tmp_path, model):
    state = {"step": 1200, "position": [3, 4], "offset": None, "name": "é"}
    folder = TrainingCheckpoints(tmp_path / "a" / "b").save(model, state)
    assert folder == tmp_path / "a" / "b" / "step-00001200"
    assert _names(folder) == sorted(FILES)
    stored = json.loads((folder / "state.json").read_text())
    assert stored == state
    assert list(stored) == list(state)  # tables have the metrics in this order
    assert set(json.loads((folder / "MANIFEST.json").read_text())["files"]) == set(FILES[:-1])
    assert TrainingCheckpoints(tmp_path / "a" / "b").restore(model) == state


def test_nothing_to_restore(tmp_path, model, snapshot):
    before = snapshot(model)
    assert TrainingCheckpoints(tmp_path / "absent").restore(model) is None
    (tmp_path / "step-x").mkdir()
    assert TrainingCheckpoints(tmp_path).restore(model) is None
    assert snapshot(model) == before


def test_keeps_the_newest(tmp_path, model):
    checkpoints = TrainingCheckpoints(tmp_path)
    for step in (1, 2, 10, 100_000_000):
        checkpoints.save(model, {"step": step})
    assert _names(tmp_path) == ["step-00000010", "step-100000000"]
    assert checkpoints.restore(model) == {"step": 100_000_000}
    TrainingCheckpoints(tmp_path, keep=1).save(model, {"step": 200_000_000})
    assert _names(tmp_path) == ["step-200000000"]


def test_the_same_step_again_replaces(tmp_path, model, train, snapshot):
    """Saving a step again replaces its checkpoint."""
    checkpoints = TrainingCheckpoints(tmp_path, keep=1)
    checkpoints.save(model, {"step": 1, "n": 1})
    train(model, 1, 2)
    checkpoints.save(model, {"step": 1, "n": 2})
    end = snapshot(model)
    train(model, 2, 3)
    assert checkpoints.restore(model) == {"step": 1, "n": 2}
    assert snapshot(model) == end


def test_does_not_start_before_what_is_there(tmp_path, model):
    """A step before the newest checkpoint is refused."""
    TrainingCheckpoints(tmp_path).save(model, {"step": 10})
    with pytest.raises(ValueError, match="step-00000010 is later than step 5"):
        TrainingCheckpoints(tmp_path).save(model, {"step": 5})
    assert _names(tmp_path) == ["step-00000010"]


@pytest.mark.parametrize("state", [{}, {"step": -1}, {"step": 1.0}, {"step": True}])
def test_a_bad_step(tmp_path, model, state):
    with pytest.raises(ValueError, match="Received"):
        TrainingCheckpoints(tmp_path).save(model, state)


def test_bad_arguments(tmp_path, model):
    with pytest.raises(ValueError, match="keep=0"):
        TrainingCheckpoints(tmp_path, keep=0)
    with pytest.raises(TypeError, match="JSON"):
        TrainingCheckpoints(tmp_path).save(model, {"step": 1, "x": object()})
    assert not list(tmp_path.iterdir())


def _flip(path):
    """Flip one bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def _truncate(path):
    path.write_bytes(path.read_bytes()[:-2])


@pytest.mark.parametrize("damage", [_flip, _truncate, os.unlink])
@pytest.mark.parametrize("file", FILES)
def test_damage_falls_back_by_name(tmp_path, model, train, snapshot, file, damage):
    checkpoints = TrainingCheckpoints(tmp_path)
    checkpoints.save(model, {"step": 100})
    good = snapshot(model)
    train(model, 1, 2)
    newest = checkpoints.save(model, {"step": 250})
    damage(newest / file)
    # A changed digest in the manifest looks like damage of the file that it describes.
    named = newest if (file, damage) == ("MANIFEST.json", _flip) else f"{newest / file}: "
    message = re.escape(f"{named}") + ".*step 250 to step 100; steps to repeat: 150"
    with pytest.warns(UserWarning, match=message):
        assert checkpoints.restore(model) == {"step": 100}
    assert snapshot(model) == good
    # Training continues at step 100. The damaged folder must not count as a checkpoint later.
    checkpoints.save(model, {"step": 200})
    assert _names(tmp_path) == ["step-00000100", "step-00000200"]
    shutil.rmtree(tmp_path / "step-00000100")
    assert checkpoints.restore(model) == {"step": 200}


def test_a_damaged_checkpoint_is_replaced_by_the_repeated_one(tmp_path, model):
    for step in (1, 2):
        TrainingCheckpoints(tmp_path).save(model, {"step": step})
    _flip(tmp_path / "step-00000002" / "model.safetensors")
    checkpoints = TrainingCheckpoints(tmp_path)
    with pytest.warns(UserWarning, match="steps to repeat: 1"):
        checkpoints.restore(model)
    checkpoints.save(model, {"step": 2})
    assert _names(tmp_path) == ["step-00000001", "step-00000002"]
    assert checkpoints.restore(model) == {"step": 2}


def test_all_damaged(tmp_path, model, snapshot):
    checkpoints = TrainingCheckpoints(tmp_path)
    for step in (1, 2):
        _flip(checkpoints.save(model, {"step": step}) / "optimizer.safetensors")
    before = snapshot(model)
    with pytest.raises(
        ArtifactError, match=r"(?s)all checkpoints are damaged.*00000002/.*00000001/"
    ):
        checkpoints.restore(model)
    assert snapshot(model) == before


def test_another_model_is_an_error_not_a_reason_to_fall_back(tmp_path, model, build):
    checkpoints = TrainingCheckpoints(tmp_path)
    checkpoints.save(model, {"step": 1})
    with pytest.raises(ArtifactError, match="configuration"):
        checkpoints.restore(build(optimizer=keras.optimizers.Lamb(0.1)))


def test_another_backend_is_said(tmp_path, model, monkeypatch, snapshot):
    before = snapshot(model)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint.keras.backend, "backend", lambda: "abacus")
        TrainingCheckpoints(tmp_path).save(model, {"step": 1})
    with pytest.warns(UserWarning, match="saved on abacus"):
        assert TrainingCheckpoints(tmp_path).restore(model) == {"step": 1}
    assert snapshot(model) == before


@pytest.mark.parametrize("killed", [False, True])
def test_failing_or_killed_at_every_point_of_saving(
    tmp_path, model, train, snapshot, monkeypatch, killed
):
    """After a failure or a kill during saving, the old or the new checkpoint is read.

    The run can then continue to the same end.
    """

    class Killed(BaseException):
        pass

    error = Killed() if killed else OSError(errno.ENOSPC, "No space left on device")
    expected = {1: snapshot(model)}
    TrainingCheckpoints(tmp_path / "origin").save(model, {"step": 1})
    train(model, 1, 2)
    expected[2] = snapshot(model)
    seen = []
    for point in range(100):
        folder = tmp_path / str(point)
        shutil.copytree(tmp_path / "origin", folder)
        checkpoints = TrainingCheckpoints(folder, keep=1)
        with monkeypatch.context() as patch:
            counter = _interrupt(patch, point, error, for_good=killed)
            with contextlib.suppress(ResourceError, Killed):
                checkpoints.save(model, {"step": 2})
        if not killed and 2 not in seen:
            assert _names(folder) in (["step-00000001"], ["step-00000001", "step-00000002"])
        state = TrainingCheckpoints(folder, keep=1).restore(model)
        assert state is not None
        assert snapshot(model) == expected[state["step"]]
        seen.append(state["step"])
        # The user runs the same command again, without the fault.
        train(model, state["step"], 2)
        assert snapshot(model) == expected[2]
        checkpoints.save(model, {"step": 2})
        assert _names(folder) == ["step-00000002"]
        if counter.left >= 0:
            break
    assert seen == sorted(seen)
    assert set(seen) == {1, 2}
    assert len(seen) > 15


def test_no_space_is_seen_before_writing(tmp_path, model, monkeypatch):
    checkpoints = TrainingCheckpoints(tmp_path)
    checkpoints.save(model, {"step": 1})
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
        _interrupt(patch, 0, AssertionError("written"), for_good=True)
        with pytest.raises(ResourceError, match=r"step-00000002: not saved: \d+ .* 1000 free"):
            checkpoints.save(model, {"step": 2})
    assert _names(tmp_path) == ["step-00000001"]
    checkpoints.save(model, {"step": 2})


def test_a_file_that_cannot_grow_leaves_the_old_checkpoints(tmp_path, model):
    checkpoints = TrainingCheckpoints(tmp_path)
    checkpoints.save(model, {"step": 1})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (700, hard))
    try:
        with pytest.raises(ResourceError, match=r"File too large.*bytes needed"):
            checkpoints.save(model, {"step": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert _names(tmp_path) == ["step-00000001"]
    assert checkpoints.restore(model) == {"step": 1}


def test_a_file_in_place_of_the_folder(tmp_path, model):
    (tmp_path / "checkpoints").write_text("")
    with pytest.raises(ResourceError, match="File exists"):
        TrainingCheckpoints(tmp_path / "checkpoints").save(model, {"step": 1})


def test_weights_that_are_not_finite_are_never_published(tmp_path, model):
    checkpoints = TrainingCheckpoints(tmp_path)
    checkpoints.save(model, {"step": 1})
    model.get_layer("head").bias.assign([float("nan"), 0.0])
    with pytest.raises(NumericError, match=r"head/bias.* checkpoint: that of step 1\."):
        checkpoints.save(model, {"step": 2})
    with pytest.raises(NumericError, match=r"head/bias.* checkpoint: no checkpoint yet\."):
        TrainingCheckpoints(tmp_path / "new").save(model, {"step": 2})
    assert (checkpoints.last_step, TrainingCheckpoints(tmp_path / "new").last_step) == (1, None)
    assert _names(tmp_path) == ["step-00000001"]


def test_leftovers_are_removed(tmp_path, model):
    checkpoints = TrainingCheckpoints(tmp_path)
    folder = checkpoints.save(model, {"step": 1})
    shutil.copytree(folder, tmp_path / ".tmp-step-00000002")
    assert checkpoints.restore(model) == {"step": 1}
    assert _names(tmp_path) == ["step-00000001"]
    folder.rename(tmp_path / ".old-step-00000001")
    assert checkpoints.restore(model) == {"step": 1}


# === Each damage is found ===


@pytest.fixture
def folder(tmp_path):
    """Return a sealed folder with two small files."""
    (tmp_path / "weights").write_bytes(bytes(range(20)))
    (tmp_path / "state").write_text("{}")
    checkpoint.seal_folder(tmp_path)
    return tmp_path


def test_untouched(folder):
    """An undamaged folder passes, also with a file that the manifest does not list."""
    checkpoint.verify_folder(folder)
    (folder / "notes of the user").write_text("")
    checkpoint.verify_folder(folder)


@pytest.mark.parametrize("name", ["weights", "state", "MANIFEST.json"])
def test_a_flipped_bit_in_any_byte_is_found(folder, name):
    path = folder / name
    good = path.read_bytes()
    for place in range(len(good)):
        bad = bytearray(good)
        bad[place] ^= 1 << place % 8
        path.write_bytes(bad)
        with pytest.raises(ArtifactError):
            checkpoint.verify_folder(folder)
    path.write_bytes(good)
    checkpoint.verify_folder(folder)


@pytest.mark.parametrize("name", ["weights", "state", "MANIFEST.json"])
def test_every_truncation_is_found_and_named(folder, name):
    path = folder / name
    good = path.read_bytes()
    # The last byte of the manifest is a line feed without information.
    for length in range(len(good) - (name == "MANIFEST.json")):
        path.write_bytes(good[:length])
        with pytest.raises(ArtifactError, match=re.escape(f"{path}: the file is damaged")):
            checkpoint.verify_folder(folder)
    path.unlink()
    with pytest.raises(ArtifactError, match=re.escape(f"{path}: the file is missing")):
        checkpoint.verify_folder(folder)
    path.mkdir()
    with pytest.raises(ArtifactError, match=re.escape(f"{path}: cannot be read")):
        checkpoint.verify_folder(folder)


@pytest.mark.parametrize("text", ["[]", '{"files": {}}', '{"format": "x", "files": {}}', "\xff"])
def test_a_foreign_manifest_is_refused(folder, text):
    (folder / checkpoint.NAME).write_text(text, encoding="latin-1")
    with pytest.raises(ArtifactError, match=r"MANIFEST\.json: the file is damaged"):
        checkpoint.verify_folder(folder)
