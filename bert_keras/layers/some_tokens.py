"""Outputs of a transformer block for some tokens only, to save time in the last block."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from bert_keras.layers.core import freeze_with
from bert_keras.layers.packing import tokens_at
from bert_keras.layers.serialization import SerializableLayer, build_once
from bert_keras.layers.transformer_block import TransformerBlock


def _given(**options: Any) -> dict[str, Any]:
    """Return the options that are not None, by name."""
    return {name: value for name, value in options.items() if value is not None}


class _SomeTokens(SerializableLayer):
    """Base of layers that compute the outputs of a `TransformerBlock` for some tokens only.

    Keys and values are still computed for all tokens: a sixth of the products of a block.
    """

    def __init__(self, block: TransformerBlock, **kwargs):
        kwargs.setdefault("dtype", block.dtype_policy)
        super().__init__(**kwargs)
        self.block = block
        freeze_with(self, block)

    def build(self, x_shape, *_args, **_kwargs):
        build_once(self.block, x_shape)
        self.built = True


@keras.saving.register_keras_serializable(package="bert_keras")
class FirstToken(_SomeTokens):
    """Outputs of a `TransformerBlock` for the first token, [CLS], only."""

    def call(
        self, x, padding_mask=None, training=None, positions=None, window=None, example_ids=None
    ):
        """[batch, length, hidden_size] -> [batch, 1, hidden_size].

        See `SelfAttention.call` for the last three arguments.
        """
        if padding_mask is not None and len(padding_mask.shape) == 3:
            padding_mask = padding_mask[:, :1]
        attention = _given(positions=positions, window=window, example_ids=example_ids)
        if attention:
            attention["query_places"] = ops.zeros((ops.shape(x)[0], 1), dtype="int32")
        return self.block(x, padding_mask, training=training, queries=x[:, :1], **attention)

    def compute_output_spec(
        self, x, padding_mask=None, training=None, positions=None, window=None, example_ids=None
    ):
        return keras.KerasTensor((x.shape[0], 1, x.shape[2]), dtype=self.compute_dtype)


@keras.saving.register_keras_serializable(package="bert_keras")
class TokensOf(_SomeTokens):
    """Outputs of a `TransformerBlock` at some positions only.

    A masked language model reads about 15 % of the tokens.

    Args:
        block: the block.
        first: True to compute the first token of each example, [CLS], too.
    """

    def __init__(self, block: TransformerBlock, first: bool = False, **kwargs):
        super().__init__(block, **kwargs)
        self.first = first

    def call(
        self,
        x,
        places,
        padding_mask=None,
        first_places=None,
        training=None,
        positions=None,
        window=None,
        example_ids=None,
    ):
        """Apply the block.

        Args:
            x: [batch, length, hidden_size].
            places: [batch, tokens], in [0, length).
            padding_mask: as in `SelfAttention.call`.
            first_places: [batch, examples], where each example of a row begins; None where a row is
                one example.
            training: whether dropout is active.
            positions: as in `SelfAttention.call`, and so are the next two.
            window: tokens to each side.
            example_ids: examples of the tokens.

        Returns:
            [batch, tokens, hidden_size]. With `first` a tuple of this and the vectors of [CLS],
            [batch, examples, hidden_size].
        """
        attention = _given(positions=positions, window=window, example_ids=example_ids)
        if not self.block.takes_queries:
            all_outputs = self.block(x, padding_mask, training=training, **attention)
            outputs = self._gather(all_outputs, places, first_places)
        else:
            if padding_mask is not None and len(padding_mask.shape) == 3:
                padding_mask = self._gather(padding_mask, places, first_places)
            if attention:
                attention["query_places"] = self._all_places(places, first_places)
            queries = self._gather(x, places, first_places)
            outputs = self.block(x, padding_mask, training=training, queries=queries, **attention)
        if not self.first:
            return outputs
        count = 1 if first_places is None else ops.shape(first_places)[1]
        return outputs[:, count:], outputs[:, :count]

    def _all_places(self, places, first_places):
        """Return the places of all tokens that are computed; with `first`, of each [CLS] before."""
        places = ops.cast(places, "int32")
        if not self.first:
            return places
        first = ops.zeros_like(places[:, :1]) if first_places is None else first_places
        return ops.concatenate([ops.cast(first, "int32"), places], axis=1)

    def _gather(self, x, places, first_places):
        """Return the vectors of `x` at the places; with `first`, those of each [CLS] before.

        A row has one example, unless it is packed: then it has several, each with its [CLS].

        [batch, length, width] -> [batch, examples + tokens, width].
        """
        tokens = tokens_at(x, places)
        if not self.first:
            return tokens
        first = x[:, :1] if first_places is None else tokens_at(x, first_places)
        return ops.concatenate([first, tokens], axis=1)

    def compute_output_spec(
        self,
        x,
        places,
        padding_mask=None,
        first_places=None,
        training=None,
        positions=None,
        window=None,
        example_ids=None,
    ):
        batch, _, width = x.shape
        outputs = keras.KerasTensor((*places.shape, width), dtype=self.compute_dtype)
        if not self.first:
            return outputs
        examples = 1 if first_places is None else first_places.shape[1]
        return outputs, keras.KerasTensor((batch, examples, width), dtype=self.compute_dtype)
