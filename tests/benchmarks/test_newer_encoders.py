"""Both libraries measure the same model."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import mean_vectors, newer_encoders, train_steppers
from benchmarks.contest import KERAS_HUB, OURS, TRANSFORMERS

TINY = {**newer_encoders.QUICK, **newer_encoders.BATCH, "length": 40}


@pytest.mark.parametrize("shape", newer_encoders.SIZES)
def test_the_same_number_of_weights(shape: str, transformers: Any) -> None:
    sizes = {**newer_encoders.SIZES[shape], "width": 24, "inner": 40, "heads": 2, "layers": 4}
    ours = train_steppers.shaped_encoder(sizes, "float32", shape)
    config = train_steppers.shaped_config(sizes, shape)
    theirs = transformers.AutoModel.from_config(config)
    pooler = sum(p.numel() for name, p in theirs.named_parameters() if name.startswith("pooler"))
    count = sum(parameter.numel() for parameter in theirs.parameters())
    assert ours.count_params() in (count, count - pooler)


def test_programs() -> None:
    for mode in newer_encoders.MODES:
        programs = newer_encoders.programs("modernbert", mode, 512, quick=True)
        names = [each.name for each in programs]
        if mode == "training":
            assert [name.partition(",")[0] for name in names[5:]] == [*[OURS] * 3, TRANSFORMERS]
            assert all(each.arguments["checkpointed"] for each in programs[5:])
            names = names[:5]
        assert names[-2:] == [TRANSFORMERS, f"{TRANSFORMERS}, compiled"]
        assert [name.partition(",")[0] for name in names[:-2]] == [OURS] * 3
        assert KERAS_HUB not in " ".join(names)
        assert {each.arguments["size"]["batch"] for each in programs} == {4}
        assert {each.arguments["shape"] for each in programs} == {"modernbert"}


@pytest.mark.slow
@pytest.mark.parametrize("module", [mean_vectors, train_steppers])
@pytest.mark.parametrize("name", ["ours", "transformers"])
@pytest.mark.parametrize("shape", newer_encoders.SIZES)
def test_a_round(module: Any, name: str, shape: str, transformers: Any) -> None:
    figures = getattr(module, name)(TINY, "float32", shape=shape)()
    assert figures["tokens_per_second"] > 0
