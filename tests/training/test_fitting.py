"""The batches of a training, and where it stands after some reports."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest

from bert_keras.data import EncodedTexts, SupervisedExamples
from bert_keras.training.fitting import Fitting


@pytest.fixture
def examples() -> SupervisedExamples:
    """Five batches in each epoch."""
    rows = EncodedTexts.of([np.arange(5, 9)] * 10, [np.zeros(4)] * 10, pad_id=0)
    return SupervisedExamples(rows, {"label": np.arange(10)}, batch_size=2, seed=0)


def test_the_state_of_a_new_run(examples: SupervisedExamples, tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    logs = {name: tmp_path / f"{name}.jsonl" for name in ("metrics", "speed")}
    fitting = Fitting(
        model,
        examples,
        checkpoints=tmp_path / "checkpoints",
        **logs,
        log_every=3,
        began=0.0,
        start={"best": None},
    )
    assert (fitting.state["step"], fitting.state["best"]) == (0, None)
    state = fitting.state_after(4)
    assert [state[name] for name in ("step", "epoch", "position")] == [12, 2, 2]
    assert state["seconds"] <= fitting.seconds
