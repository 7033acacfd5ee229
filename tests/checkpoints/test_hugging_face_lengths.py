"""Every family and head at short and long lengths, padded and packed: the outputs of transformers.

Windows, buckets of distances and the rates of rotary positions show only in long texts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras import features, load_checkpoint
from bert_keras.checkpoints.hugging_face_names import FAMILIES
from tests import contracts, reference

LENGTHS = (16, 200, 1024)
# Limits that all of these lengths but the first exceed, and layers of every kind.
_MORE: dict[str, dict[str, Any]] = {
    "modernbert": {"local_attention": 32},
    "ultrabert": {"sliding_window": 20, "num_hidden_layers": 4},
    **{
        family: {"max_relative_positions": 48}
        for family, rows in FAMILIES.items()
        if "deberta" in rows.model_types[0]
    },
}
_CASES = [
    (family, class_name)
    for family, rows in FAMILIES.items()
    for ours, class_name in rows.classes.items()
    if ours != "SentenceEncoder"  # no class of transformers
]


def _opened(transformers: Any, family: str, class_name: str, folder: Path) -> tuple[Any, Any]:
    """Return a tiny model for long texts, ours and theirs."""
    ending = class_name.removeprefix(reference.HUGGING_FACE[family][0])
    positions = FAMILIES[family].sizes["max_positions"]
    sizes = {positions: LENGTHS[-1] + 8, **_MORE.get(family, {})}
    model = reference.hugging_face_model(transformers, ending, family, **sizes)
    model.save_pretrained(folder)
    return load_checkpoint(folder), model


@pytest.mark.slow
@pytest.mark.parametrize(("family", "class_name"), _CASES)
def test_padded_rows(family: str, class_name: str, transformers: Any, tmp_path: Path) -> None:
    ours, theirs = _opened(transformers, family, class_name, tmp_path)
    reference.same_at(ours, theirs, LENGTHS)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_packed_rows(family: str, transformers: Any, tmp_path: Path) -> None:
    """The vectors of texts that share a row are those of transformers for each text alone."""
    class_name = FAMILIES[family].classes["BertEncoder"]
    encoder, theirs = _opened(transformers, family, class_name, tmp_path)
    draw, lengths = np.random.default_rng(0), (16, 200, 808)
    texts = [draw.integers(5, encoder.config.vocab_size, (1, n)) for n in lengths]
    expected = []
    for ids in texts:
        x = {features.TOKEN_IDS: ids, features.PADDING_MASK: np.ones_like(ids)}
        expected.append(reference.hugging_face_outputs(theirs, x)[features.SEQUENCE_OUTPUT])
    ids = np.concatenate(texts, axis=1)
    places = np.sort(draw.permutation(ids.shape[1])[:64])[None]
    rows = {
        features.TOKEN_IDS: ids,
        features.SEGMENT_IDS: np.zeros_like(ids),
        features.POSITION_IDS: np.concatenate([np.arange(n) for n in lengths])[None],
        features.EXAMPLE_IDS: np.repeat([1, 2, 3], lengths)[None],
        features.FIRST_POSITIONS: np.cumsum([0, *lengths[:-1]])[None],
        features.MASK_POSITIONS: places,
    }
    view = encoder.at_positions(packed=True, pooled=encoder.config.pooler)
    found = contracts.numpy(view({tensor.name: rows[tensor.name] for tensor in view.inputs}))
    every = np.concatenate(expected, axis=1)
    reference.assert_close(found[features.SEQUENCE_OUTPUT][0], every[0, places[0]], family)
