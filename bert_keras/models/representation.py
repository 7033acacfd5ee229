"""What a head reads of an encoder: its last layer, several layers, or a mixture of all."""

from __future__ import annotations

from typing import Any

import keras

from bert_keras import features
from bert_keras.layers import ScalarMix
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.task import Task

LAST = "last"
CONCAT = "concat_last_4"
MIX = "mix"
REPRESENTATIONS = (LAST, CONCAT, MIX)
_LAYERS = 4  # of a concatenation


def token_vectors(encoder: BertEncoder, inputs: dict, representation: str = LAST) -> Any:
    """The vectors of the tokens that a head reads.

    Args:
        encoder: the encoder.
        inputs: symbolic ones of the encoder.
        representation: "last", the last layer: [batch, length, hidden_size]; "concat_last_4", the
            last four side by side, which Devlin et al. (2019, §5.3) found the best of an encoder
            that is not trained: [batch, length, 4 * hidden_size]; "mix", a learned mixture of the
            embeddings and all layers (Peters et al., 2018, equation 1).

    Raises:
        ValueError: an unknown representation, or fewer than four layers.
    """
    if representation not in REPRESENTATIONS:
        raise ValueError(
            f"`representation` must be one of {', '.join(REPRESENTATIONS)}. "
            f"Received: representation={representation!r}"
        )
    if representation == LAST:
        return encoder(inputs)[features.SEQUENCE_OUTPUT]
    if representation == CONCAT and encoder.config.num_layers < _LAYERS:
        raise ValueError(
            f"representation={representation!r} needs an encoder of {_LAYERS} layers or more. "
            f"Received: num_layers={encoder.config.num_layers}"
        )
    encoded = encoder.with_outputs(hidden_states=True)(inputs)
    mix = ScalarMix(dtype=encoder.dtype_policy, name=MIX) if representation == MIX else None
    return read(encoded, mix)


def packed_vectors(task: Task, inputs: dict) -> Any:
    """As `token_vectors`, of rows of several examples: what this task's head reads."""
    representation = task.options.get("representation", LAST)
    encoded = task.encoder.packed(hidden_states=representation != LAST)(inputs)
    return read(encoded, task.get_layer(MIX) if representation == MIX else None)


def read(encoded: dict, mix: ScalarMix | None = None) -> Any:
    """The vectors of the tokens, of an encoder's outputs.

    Args:
        encoded: with `hidden_states` where more than the last layer is read.
        mix: of the layers; None for the last four side by side.
    """
    if features.HIDDEN_STATES not in encoded:
        return encoded[features.SEQUENCE_OUTPUT]
    states = list(encoded[features.HIDDEN_STATES])
    return keras.ops.concatenate(states[-_LAYERS:], axis=-1) if mix is None else mix(states)
