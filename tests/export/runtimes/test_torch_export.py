"""Exported PyTorch programs give the model's outputs and store quantised weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bert_keras.export.runtimes import torch_export
from tests.export.runtimes.conftest import MODELS
from tests.export.runtimes.runners import RUNNERS


@pytest.mark.parametrize("name", MODELS)
def test_it_answers_alike(name: str, check) -> None:
    check(name, torch_export.write, "model.pt2", RUNNERS["torch"])


@pytest.mark.parametrize(
    ("quantization", "tolerance", "kind"),
    [("float16", 3e-3, torch.float16), ("int8", 0.1, torch.uint8)],
)
def test_quantised(quantization, tolerance, kind, check, tmp_path: Path) -> None:
    options = {"quantization": quantization, "tolerance": tolerance}
    check("pretrainer", torch_export.write, "model.pt2", RUNNERS["torch"], **options)
    program = torch.export.load(tmp_path / "model.pt2")
    kept = {name: value.dtype for name, value in program.state_dict.items()}
    constants = program.constants.items()
    kept |= {name: value.dtype for name, value in constants if isinstance(value, torch.Tensor)}
    kernels = [name for name in kept if name.endswith("kernel")]
    assert kernels
    assert {kept[name] for name in kernels} == {kind}


def test_no_path_of_this_machine_is_in_it(tmp_path: Path) -> None:
    torch_export.write(MODELS["pairs"](), tmp_path / "model.pt2", None)
    content = (tmp_path / "model.pt2").read_bytes()
    assert str(Path(__file__).parents[3]).encode() not in content


def test_a_full_disk_does_not_end_the_process(tmp_path: Path) -> None:
    """A full disk raises an error and does not end the process.

    PyTorch writes again when it destroys its writer, and an error there would end the process.
    """
    if not Path("/dev/full").exists():
        pytest.skip("this platform has no /dev/full")
    (tmp_path / "model.pt2").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device"):
        torch_export.write(MODELS["pairs"](), tmp_path / "model.pt2", None)
