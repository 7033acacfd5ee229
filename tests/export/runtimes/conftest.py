"""Tiny models of each kind, which a runtime's `write` exports and the runtime runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import features
from bert_keras.export.runtimes.formats import FORMATS, flat
from bert_keras.models import (
    BertEncoder,
    MultipleChoice,
    Pretrainer,
    SentencePairs,
    TokenClassifier,
)
from tests.contracts import TINY, as_trained, inputs_of, numpy

collect_ignore = []
if keras.backend.backend() != "torch":
    collect_ignore.append("test_torch_export.py")  # PyTorch's programs are written on its backend
if not any(keras.backend.backend() in known.writers for known in FORMATS.values()):
    collect_ignore.append("test_encoders.py")  # no format can be written

# These models have every input and output, and every layer with operations of its own.
_ODD = TINY.replace(position_embedding="relative_key_query", embedding_size=4, num_segments=0)
MODELS: dict[str, Callable[[], Any]] = {
    "pretrainer": lambda: Pretrainer(BertEncoder(TINY)),
    "choices": lambda: MultipleChoice(BertEncoder(TINY)),
    "pairs": lambda: SentencePairs(BertEncoder(TINY)),
    "potentials": lambda: TokenClassifier(BertEncoder(TINY), 3, crf=True),
    "attentions": lambda: BertEncoder(_ODD, hidden_states=True, attentions=True),
}
# Keras warns about a softmax over a single key.
SIZES = ((3, 7), (1, 2), (5, 12))
Batch = dict[str, np.ndarray]
Run = Callable[[Batch], Mapping[str, Any]]


def batch_of(model: Any, rows: int, length: int) -> dict[str, np.ndarray]:
    """Return inputs for a model in another size than the one of its export."""
    found = inputs_of(model, 7)
    for name, values in found.items():
        values = np.concatenate([values, values])[:rows]
        if name != features.MASK_POSITIONS:
            values = np.concatenate([values, values], axis=-1)[..., :length]
        found[name] = values % length if name == features.MASK_POSITIONS else values
    return found


def compare(
    model: Any, batches: Sequence[Batch], run: Run, tolerance: float, exact: Run | None = None
) -> None:
    """Compare the outputs of a runtime with those of the model.

    Both are rounded. Where they differ by more than the tolerance, the outputs of `exact`, which
    computes in float64, decide: the model must be within the tolerance of them, and the runtime may
    be that much further from them than the model.
    """
    for inputs in batches:
        expected = flat(numpy(model(inputs, training=False)))
        found = dict(run(inputs))
        assert found.keys() == expected.keys()
        for key, values in expected.items():
            assert found[key].dtype == np.float32
            bound, wanted = tolerance, values
            if exact is not None and np.abs(found[key] - values).max(initial=0) > tolerance:
                wanted = flat(dict(exact(inputs)))[key]
                rounding = np.abs(values - wanted).max()
                assert rounding < tolerance, (key, rounding)
                bound += rounding
            np.testing.assert_allclose(found[key], wanted, atol=bound, rtol=0, err_msg=key)


@pytest.fixture
def check(tmp_path: Path):
    """Return a function that exports a model and compares its outputs in three sizes."""

    def run(
        name: str,
        write: Callable[[Any, Path, str | None], None],
        file: str,
        opened: Callable[[Path], Run],
        *,
        quantization: str | None = None,
        tolerance: float = 1e-5,
    ) -> None:
        model = as_trained(MODELS[name]())
        write(model, tmp_path / file, quantization)
        batches = [batch_of(model, rows, length) for rows, length in SIZES]
        compare(model, batches, opened(tmp_path / file), tolerance)

    return run
