"""Checkpoint folders of this package: exact round trips and the refusal of damaged folders."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from bert_keras import BertEncoder, MaskedLM, Pretrainer, load_checkpoint, save_checkpoint
from bert_keras.checkpoints.folders import staging_folder
from bert_keras.checkpoints.manifest import CONFIG, MANIFEST, WEIGHTS
from bert_keras.checkpoints.model_card import CARD
from bert_keras.errors import ArtifactError, NumericError, ResourceError, UsageError
from tests import contracts
from tests.contracts import FAMILIES, TINY

_QUERY = "bert.encoder.layer.0.attention.self.query.weight"


@pytest.fixture
def folder(saved, tmp_path) -> Path:
    """Return a copy of the saved Pretrainer that a test may damage."""
    return Path(shutil.copytree(saved, tmp_path / "folder"))


@pytest.mark.parametrize("family", FAMILIES)
def test_encoder_round_trip(family: str, tmp_path):
    config = FAMILIES[family]
    contracts.check_format(BertEncoder(config), contracts.batch(config), tmp_path)


@pytest.mark.parametrize("family", FAMILIES)
def test_masked_lm_round_trip(family: str, tmp_path):
    config = FAMILIES[family]
    x = contracts.batch(config, predictions=2)
    contracts.check_format(MaskedLM(BertEncoder(config)), x, tmp_path)


@pytest.mark.parametrize("loss", ["nsp", "sop"])
def test_pretrainer_round_trip(loss: str, tmp_path):
    task = Pretrainer(BertEncoder(TINY), loss=loss)
    contracts.check_format(task, contracts.batch(TINY, predictions=2), tmp_path)


def test_what_is_written(folder):
    assert {path.name for path in folder.iterdir()} == {CONFIG, MANIFEST, WEIGHTS, CARD}
    manifest = json.loads((folder / MANIFEST).read_text())
    assert manifest["class"] == "Pretrainer"
    assert manifest["options"] == {"loss": "nsp"}
    assert manifest["config"] == TINY.to_dict()
    assert manifest["sha256"] == {
        WEIGHTS: hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()
    }


def test_saving_again_replaces(folder):
    other = contracts.as_trained(Pretrainer(BertEncoder(TINY)), seed=1)
    (folder / "vocab.txt").write_text("kept")
    save_checkpoint(other, folder)
    contracts.assert_same_weights(load_checkpoint(folder), other)
    assert (folder / "vocab.txt").read_text() == "kept"
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_saving_twice_gives_the_same_bytes(folder, tmp_path):
    save_checkpoint(load_checkpoint(folder), tmp_path / "again")
    for name in (CONFIG, MANIFEST, WEIGHTS):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()


def test_encoder_of_a_task(saved):
    task, encoder = Pretrainer.from_preset(saved), BertEncoder.from_preset(saved, name="body")
    expected = contracts.weights(task)
    assert encoder.name == "body"
    for path, values in contracts.weights(encoder).items():
        assert expected[path].tobytes() == values.tobytes(), path


def test_policy_is_chosen_when_opening(saved):
    task = load_checkpoint(saved, dtype="mixed_bfloat16")
    assert task.dtype_policy.name == "mixed_bfloat16"
    contracts.assert_same_weights(task, load_checkpoint(saved))


def test_config_alone(saved):
    encoder = BertEncoder.from_preset(saved, load_weights=False, hidden_states=True)
    assert encoder.config == TINY
    assert "hidden_states" in encoder.output
    np.testing.assert_array_equal(contracts.weights(encoder)["pooler/dense/bias"], 0.0)


def test_the_config_of_a_folder_of_ours_needs_no_weights(folder):
    (folder / WEIGHTS).unlink()
    task = Pretrainer.from_preset(folder, load_weights=False)
    assert task.encoder.config == TINY
    with pytest.raises(ArtifactError, match=WEIGHTS):
        Pretrainer.from_preset(folder)


def test_a_head_may_be_missing_if_so_said(saved, tmp_path):
    BertEncoder.from_preset(saved).save_to_preset(tmp_path)
    with pytest.raises(ArtifactError, match=r"Missing in the file:\n  cls.predictions.bias"):
        MaskedLM.from_preset(tmp_path)
    task = MaskedLM.from_preset(tmp_path, allow_missing=("mlm",))
    assert isinstance(task, MaskedLM)
    found, expected = contracts.weights(task), contracts.weights(load_checkpoint(saved))
    for path, values in found.items():
        same = values.tobytes() == expected[path].tobytes()
        assert same != path.startswith("mlm/"), path


def test_one_name_may_stand_for_a_tuple_of_one(saved, tmp_path):
    assert isinstance(MaskedLM.from_preset(saved, allow_unused="nsp"), MaskedLM)
    BertEncoder.from_preset(saved).save_to_preset(tmp_path)
    assert isinstance(MaskedLM.from_preset(tmp_path, allow_missing="mlm"), MaskedLM)
    assert isinstance(MaskedLM.from_preset(tmp_path, allow_missing=["mlm"]), MaskedLM)
    with pytest.raises(ArtifactError, match="Missing in the file"):
        MaskedLM.from_preset(tmp_path, allow_missing="mlm_and_more")


def test_missing_is_allowed_by_layer_not_by_letters(saved, tmp_path):
    BertEncoder.from_preset(saved).save_to_preset(tmp_path)
    with pytest.raises(ArtifactError, match="Missing in the file"):
        MaskedLM.from_preset(tmp_path, allow_missing=("ml", "mlm/dense"))


def test_a_pooler_may_be_missing_if_so_said(saved, tmp_path):
    """Without the manifest, the tensors decide whether the encoder has a pooler.

    The config.json of Hugging Face does not say it. `allow_missing` makes a new pooler.
    """
    _without_manifest(lambda tensors: {n: v for n, v in tensors.items() if "pooler" not in n})(
        Path(shutil.copytree(saved, tmp_path / "folder"))
    )
    assert not BertEncoder.from_preset(tmp_path / "folder").config.pooler
    opened = Pretrainer.from_preset(tmp_path / "folder", allow_missing=("pooler",))
    assert opened.encoder.config.pooler


def test_a_head_may_be_unused_if_so_said(saved):
    with pytest.raises(ArtifactError, match=r"Not used by the model:\n  cls.seq_relationship.bias"):
        MaskedLM.from_preset(saved)
    task = MaskedLM.from_preset(saved, allow_unused=("nsp",))
    expected = contracts.weights(load_checkpoint(saved))
    for path, values in contracts.weights(task).items():
        assert values.tobytes() == expected[path].tobytes(), path


def test_options_of_the_checkpoint_can_be_overruled(saved):
    """An option given by the caller replaces the one in the manifest.

    The head of sentence pairs has the same tensors for both losses.
    """
    assert Pretrainer.from_preset(saved).options == {"loss": "nsp"}
    assert Pretrainer.from_preset(saved, loss="sop").options == {"loss": "sop"}


def _manifest(**changes: Any) -> Callable[[Path], None]:
    """Return a function that changes the manifest and deletes config.json.

    A config.json that contradicts the manifest would be refused first.
    """

    def damage(folder: Path) -> None:
        (folder / CONFIG).unlink()
        values = json.loads((folder / MANIFEST).read_text()) | changes
        (folder / MANIFEST).write_text(json.dumps(values))

    return damage


def _bytes(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Return a function that changes the bytes of one file in a folder."""

    def damage(folder: Path) -> None:
        (folder / name).write_bytes(change((folder / name).read_bytes()))

    return damage


def _without_manifest(
    change: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]],
) -> Callable[[Path], None]:
    """Return a function that changes the tensors and deletes the manifest with its digests."""

    def damage(folder: Path) -> None:
        tensors = change(load_file(folder / WEIGHTS))
        save_file(tensors, folder / WEIGHTS)
        (folder / MANIFEST).unlink()

    return damage


def _flipped(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


_REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "missing folder": (shutil.rmtree, "folder': no such folder. Name a checkpoint's"),
    "no config": (
        lambda folder: [(folder / name).unlink() for name in (CONFIG, MANIFEST)],
        "config.json: no such file",
    ),
    "no weights": (lambda folder: (folder / WEIGHTS).unlink(), "model.safetensors: no such file"),
    "empty manifest": (_bytes(MANIFEST, lambda _: b""), r"bert_keras.json: not JSON \("),
    "half a manifest": (_bytes(MANIFEST, lambda b: b[:-9]), r"bert_keras.json: not JSON \("),
    "not UTF-8": (_bytes(MANIFEST, lambda b: b"\xff" + b), r"bert_keras.json: not JSON \("),
    "a list": (
        _bytes(MANIFEST, lambda _: b"[]"),
        "bert_keras.json: expected a JSON object. .* list",
    ),
    "unknown format": (_manifest(format=2), "bert_keras.json: format 2 is not known; .* reads 1"),
    "no format": (_manifest(format=None), "bert_keras.json: format None is not known"),
    "unknown class": (_manifest(**{"class": "Task"}), "bert_keras.json: unknown class 'Task'"),
    "no options": (_manifest(options=None), "bert_keras.json: `options` is not an object"),
    "no digests": (_manifest(sha256=[]), "bert_keras.json: `sha256` is not an object"),
    "no digest": (_manifest(sha256={}), "model.safetensors: bert_keras.json has no digest"),
    "unknown value": (
        _manifest(config={**TINY.to_dict(), "depth": 3}),
        "bert_keras.json: Unknown config values: depth",
    ),
    "bad value": (
        _manifest(config={**TINY.to_dict(), "num_heads": 3}),
        "bert_keras.json: `num_heads` must divide",
    ),
    "another size": (
        _manifest(config=TINY.replace(intermediate_size=24).to_dict()),
        r"Of another shape:\n  bert.encoder.layer.1.intermediate.dense.weight: "
        r"expected \[24, 8\], found \[16, 8\]",
    ),
    "a size beyond any memory": (
        _manifest(config={**TINY.to_dict(), "vocab_size": 10**15}),
        r"bert_keras.json: `vocab_size` must be an integer of at least 1 and at most 16,777,216",
    ),
    "a size beyond the tensors": (
        _manifest(config=TINY.replace(intermediate_size=2**18).to_dict()),
        r"Of another shape:\n  .*intermediate.dense.weight: expected \[262144, 8\]",
    ),
    "more layers than anybody has": (
        _manifest(config={**TINY.to_dict(), "num_layers": 10**9}),
        r"bert_keras.json: `num_layers` must be an integer of at least 1 and at most 512",
    ),
    "more layers than the tensors": (
        _manifest(config=TINY.replace(num_layers=512).to_dict()),
        r"Missing in the file:\n(.*\n)*  bert.encoder.layer.511.attention.self.query.weight",
    ),
    "an unknown key": (_manifest(adapters=[]), r"bert_keras.json: unknown keys: 'adapters'"),
    "unknown option": (
        _manifest(options={"colour": 1}),
        "bert_keras.json: the options do not fit a Pretrainer: .*colour",
    ),
    "bad option": (
        _manifest(options={"loss": "xyz"}),
        "bert_keras.json: the options do not fit a Pretrainer: `loss` must be",
    ),
    "flipped bit": (_bytes(WEIGHTS, _flipped), "model.safetensors: the bytes are not those that"),
    "truncated": (_bytes(WEIGHTS, lambda b: b[:-4]), "model.safetensors: not a whole safetensors"),
    "empty weights": (_bytes(WEIGHTS, lambda _: b""), "model.safetensors: not a whole"),
    "a key twice": (
        _bytes(MANIFEST, lambda b: b.replace(b'"class"', b'"class": "MaskedLM", "class"')),
        "bert_keras.json: 'class' is said twice, and readers differ",
    ),
    "a key twice, deeper": (
        _bytes(MANIFEST, lambda b: b.replace(b'"hidden_size"', b'"hidden_size": 9, "hidden_size"')),
        "bert_keras.json: 'hidden_size' is said twice",
    ),
    "a key twice, in their config": (
        lambda folder: [
            (folder / MANIFEST).unlink(),
            _bytes(CONFIG, lambda b: b.replace(b"{", b'{"hidden_size": 9, ', 1))(folder),
        ],
        "config.json: 'hidden_size' is said twice",
    ),
    "JSON without end": (
        _bytes(MANIFEST, lambda _: b'{"a":' * 100_000),
        "bert_keras.json: deeper than any file of a checkpoint",
    ),
    "a number without end": (
        _bytes(MANIFEST, lambda _: b'{"format": ' + b"9" * 5000 + b"}"),
        r"bert_keras.json: not JSON \(",
    ),
    "a pickle for weights": (
        _bytes(WEIGHTS, lambda _: pickle.dumps({"a": 1})),
        "model.safetensors: not a whole safetensors file",
    ),
    "a pipe for weights": (
        lambda folder: [(folder / WEIGHTS).unlink(), os.mkfifo(folder / WEIGHTS)],
        "model.safetensors: no such file",
    ),
    "integers for floats": (
        _without_manifest(lambda t: {**t, _QUERY: t[_QUERY].astype("int64")}),
        f"model.safetensors: {_QUERY}: expected floats. Received: int64",
    ),
    "missing tensor": (
        _without_manifest(lambda t: {name: t[name] for name in t if name != _QUERY}),
        f"model.safetensors does not fit the model.\nMissing in the file:\n  {_QUERY} "
        r"\(closest in the file: .*\.1\..*\.query\.weight\)$",
    ),
    "extra tensor": (
        _without_manifest(lambda t: {**t, "bert.extra.weight": np.zeros(1)}),
        "model.safetensors does not fit.*\nNot used by the model:\n  bert.extra.weight$",
    ),
    "extra block": (
        _without_manifest(lambda t: {**t, _QUERY.replace("0", "2"): t[_QUERY]}),
        f"Not used by the model:\n  {_QUERY.replace('0', '2')}$",
    ),
    "wrong shape": (
        _without_manifest(lambda t: {**t, _QUERY: t[_QUERY][:4]}),
        rf"Of another shape:\n  {_QUERY}: expected \[8, 8\], found \[4, 8\]$",
    ),
}


@pytest.mark.parametrize("case", _REFUSED)
def test_refused(case: str, folder):
    damage, message = _REFUSED[case]
    damage(folder)
    with pytest.raises(ArtifactError, match=message):
        Pretrainer.from_preset(folder)


def test_a_damaged_encoder_is_refused_as_well(folder):
    _bytes(WEIGHTS, _flipped)(folder)
    with pytest.raises(ArtifactError, match="the bytes are not those"):
        BertEncoder.from_preset(folder)
    _manifest(format=7)(folder)
    with pytest.raises(ArtifactError, match="format 7"):
        BertEncoder.from_preset(folder)


def test_weights_that_are_not_finite_are_never_written(tmp_path):
    encoder = BertEncoder(TINY)
    encoder.weights[0].assign(encoder.weights[0] * np.nan)
    with pytest.raises(NumericError, match="embeddings/token/embeddings has values that are not"):
        encoder.save_to_preset(tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


def test_outputs_of_an_encoder_are_saved(tmp_path):
    encoder = BertEncoder(TINY, hidden_states=True, attentions=True)
    encoder.save_to_preset(tmp_path)
    assert BertEncoder.from_preset(tmp_path).options == encoder.options
    assert not BertEncoder.from_preset(tmp_path, attentions=False).options["attentions"]


# === A folder that becomes whole, or is not there ===


@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize(
    ("full", "name", "message"),
    [
        (False, "model", r"new/model: could not be written: No space"),
        (True, None, r"new: could not be written: No space"),
    ],
)
def test_a_disk_that_refuses_leaves_nothing(
    full: bool,
    name: str | None,
    message: str,
    is_there: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A trial tells the reason of an error without the name of a file."""
    target = tmp_path / "a" / "new"
    if is_there:
        target.mkdir(parents=True)

    def refuse(**_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(ResourceError, match=message), staging_folder(target) as folder:  # noqa: PT012
        (folder / "model").write_text("half")
        (folder / "variables").mkdir()
        if full:
            monkeypatch.setattr("tempfile.TemporaryFile", refuse)
            raise RuntimeError("file 3 was not written")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder / f"{name}"))
    assert list(tmp_path.rglob("*")) == ([tmp_path / "a", target] if is_there else [])


def test_other_errors_stay_and_leave_nothing(tmp_path: Path) -> None:
    for error in (
        ArtifactError("damaged"),
        OSError(errno.ENOSPC, "the cache is full"),
        PermissionError(errno.EACCES, "no", str(tmp_path / "source")),
        KeyboardInterrupt(),
    ):
        with pytest.raises(type(error)) as caught, staging_folder(tmp_path / "new"):
            raise error
        assert caught.value is error
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["new", "empty", "link", "dangling link"])
def test_a_folder_is_filled(kind: str, tmp_path: Path) -> None:
    target = tmp_path / "target"
    if kind == "empty":
        target.mkdir()
    if kind == "link":
        (tmp_path / "real").mkdir()
    if "link" in kind:
        target.symlink_to(tmp_path / "real")
    with staging_folder(target) as folder:
        assert list(folder.iterdir()) == []
        (folder / "model").write_text("whole")
        (folder / "variables").mkdir()
    assert sorted(path.name for path in target.iterdir()) == ["model", "variables"]
    assert target.is_symlink() is ("link" in kind)


def test_what_others_write_in_the_meantime_is_kept(tmp_path: Path) -> None:
    for error in (None, ArtifactError("damaged")):
        target = tmp_path / f"{error}"
        with pytest.raises((UsageError, ArtifactError)), staging_folder(target) as folder:  # noqa: PT012
            (folder / "model").write_text("ours")
            (target / "model").write_text("theirs")
            if error:
                raise error
        assert [path.name for path in target.iterdir()] == ["model"]
        assert (target / "model").read_text() == "theirs"


def test_a_place_that_cannot_be_written_is_refused_first(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(ResourceError, match=r"file/new: could not be written: Not a directory"),
        staging_folder(tmp_path / "file" / "new"),
    ):
        pytest.fail("the block is not run")


def test_a_folder_with_files_is_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "full" / "mine"
    mine.parent.mkdir()
    mine.write_text("kept")
    for target in (mine.parent, mine):
        with pytest.raises(UsageError, match="is not overwritten"), staging_folder(target):
            pytest.fail("the block is not run")
    assert mine.read_text() == "kept"
