"""Symbolic inputs of encoders and of their views."""

from __future__ import annotations

import keras

from bert_keras import features
from bert_keras.config import BertConfig


def encoder_inputs(config: BertConfig) -> dict[str, keras.KerasTensor]:
    """New symbolic inputs of an encoder with this config."""
    return _inputs(config, features.PADDING_MASK)


def packed_inputs(config: BertConfig) -> dict[str, keras.KerasTensor]:
    """New symbolic inputs of its view for rows of several examples."""
    return _inputs(config, features.POSITION_IDS, features.EXAMPLE_IDS, features.FIRST_POSITIONS)


def _inputs(config: BertConfig, *more: str) -> dict[str, keras.KerasTensor]:
    names = [features.TOKEN_IDS, *more]
    if config.num_segments > 1:
        names.insert(1, features.SEGMENT_IDS)
    return {name: keras.Input((None,), dtype="int32", name=name) for name in names}
