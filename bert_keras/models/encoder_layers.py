"""The inputs and layers of an encoder, made from its config, and the pass over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras

from bert_keras import features
from bert_keras.config import BertConfig
from bert_keras.layers import (
    AttentionProbabilities,
    BertEmbeddings,
    ExampleMask,
    FirstToken,
    Pooler,
    TokensAt,
    TokensOf,
    TransformerBlock,
)


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


# === Layers ===


class BlockKind(NamedTuple):
    """A kind of transformer block.

    Attributes:
        make: makes the block of a number, for a config and a dtype policy. A block is called with
            the hidden states and the attention mask. One with `reads_positions` also gets
            `position_ids`: int32 [batch, length], or None for 0, 1, 2 and so on.
        make_final_norm: makes the normalisation behind the last block; None for a kind without.
    """

    make: Callable[[BertConfig, int, keras.DTypePolicy], Any]
    make_final_norm: Callable[[BertConfig, keras.DTypePolicy], keras.Layer] | None = None


def _post_norm_block(config: BertConfig, index: int, policy: keras.DTypePolicy) -> TransformerBlock:
    return TransformerBlock(
        config.hidden_size,
        config.heads_of(index),
        config.intermediate_size,
        activation=config.activation,
        attention_dropout=config.attention_dropout,
        relative_positions=config.position_embedding if config.has_relative_positions else None,
        max_positions=config.max_positions,
        head_size=config.head_size,
        name=f"block_{index}",
        **_constants(config, policy),
    )


# Value of `BertConfig.block` -> how its blocks are made.
BLOCKS = {"post_norm": BlockKind(_post_norm_block)}


def transformer_blocks(config: BertConfig, policy: keras.DTypePolicy) -> list[Any]:
    """Make the blocks of an encoder with this config."""
    make = BLOCKS[config.block].make
    return [make(config, index, policy) for index in range(config.unique_layers)]


def _constants(config: BertConfig, policy: keras.DTypePolicy) -> dict[str, Any]:
    return {
        "layer_norm_epsilon": config.layer_norm_epsilon,
        "dropout": config.dropout,
        "initializer_range": config.initializer_range,
        "dtype": policy,
    }


class EncoderLayers(NamedTuple):
    """Embeddings and blocks, and where there are such, the last normalisation and the pooler."""

    embeddings: BertEmbeddings
    blocks: list[Any]
    final_norm: keras.Layer | None
    pooler: Pooler | None

    @classmethod
    def of(cls, config: BertConfig, policy: keras.DTypePolicy) -> EncoderLayers:
        """Make new layers for a config."""
        embeddings = BertEmbeddings(
            vocab_size=config.vocab_size,
            max_positions=config.max_positions,
            num_segments=config.num_segments,
            embedding_size=config.table_size,
            hidden_size=config.hidden_size,
            position_offset=config.position_offset,
            position_embedding=config.position_embedding,
            name="embeddings",
            **_constants(config, policy),
        )
        blocks = transformer_blocks(config, policy)
        make_final_norm = BLOCKS[config.block].make_final_norm
        final_norm = make_final_norm(config, policy) if make_final_norm else None
        pooler = None
        if config.pooler:
            pooler = Pooler(
                config.hidden_size, config.initializer_range, dtype=policy, name="pooler"
            )
        return cls(embeddings, blocks, final_norm, pooler)

    def outputs(
        self, inputs: dict, config: BertConfig, hidden_states: bool, attentions: bool
    ) -> dict:
        """The encoder's outputs for its inputs; hidden states and attentions on request."""
        x, padding_mask = self._embedded(inputs)
        states, probabilities = [x], []
        for index in range(config.num_layers):
            block = self._block(index, config)
            before, x = x, self._apply(block, x, padding_mask, inputs)
            # After the block, which is what builds (and so names) the attention's variables.
            if attentions:
                look = AttentionProbabilities(
                    block.attention, block.norm_before_attention, name=f"attentions_{index}"
                )
                positions = self._positions(block, inputs)
                probabilities.append(look(before, padding_mask, **positions))
            states.append(x)
        outputs = self._read(self._normed(x))
        if hidden_states:
            outputs[features.HIDDEN_STATES] = tuple(states)
        if attentions:
            outputs[features.ATTENTIONS] = tuple(probabilities)
        return outputs

    def first_token(self, inputs: dict, config: BertConfig) -> dict:
        """The outputs with the first token alone in the last layer, and what that is given."""
        x, mask = self._before_last(inputs, config)
        block = self._block(-1, config)
        read = FirstToken(block, name="first_token")
        first = read(x, mask, **self._positions(block, inputs))
        return {**self._read(self._normed(first)), features.BEFORE_LAST: x}

    def at_positions(self, inputs: dict, config: BertConfig, pooled: bool) -> dict:
        """The outputs with the masked tokens, and perhaps [CLS], alone in the last layer.

        Of rows of several examples too.
        """
        x, mask = self._before_last(inputs, config)
        pooler = self.pooler if pooled else None
        block = self._block(-1, config)
        read = TokensOf(block, pooler is not None, name="tokens")
        first = inputs.get(features.FIRST_POSITIONS)
        positions = self._positions(block, inputs)
        found = read(x, inputs[features.MASK_POSITIONS], mask, first, **positions)
        outputs = {features.BEFORE_LAST: x}
        if pooler is None:
            outputs[features.SEQUENCE_OUTPUT] = self._normed(found)
        else:
            tokens, first_tokens = map(self._normed, found)
            outputs[features.SEQUENCE_OUTPUT] = tokens
            outputs[features.POOLED_OUTPUT] = pooler(first_tokens, every=first is not None)
        return outputs

    def packed(self, inputs: dict, config: BertConfig, hidden_states: bool) -> dict:
        """The outputs of rows of several examples, who do not see each other."""
        x, mask = self._embedded(inputs)
        states = [x]
        for index in range(config.num_layers):
            x = self._apply(self._block(index, config), x, mask, inputs)
            states.append(x)
        x = self._normed(x)
        tokens = TokensAt(dtype=self.embeddings.dtype_policy, name="first_tokens")
        first = inputs[features.FIRST_POSITIONS]
        outputs = {
            features.SEQUENCE_OUTPUT: x,
            features.FIRST_OUTPUT: tokens(x, first),
        }
        if self.pooler is not None:
            outputs[features.POOLED_OUTPUT] = self.pooler(x, first)
        if hidden_states:
            outputs[features.HIDDEN_STATES] = tuple(states)
        return outputs

    def last_block(self, x: Any, mask: Any, config: BertConfig) -> Any:
        """Return the encoder's last vectors, from what the last block reads."""
        return self._normed(self._apply(self._block(-1, config), x, mask, {}))

    def _embedded(self, inputs: dict) -> tuple[Any, Any]:
        """Return the embeddings that the first block reads, and the attention mask."""
        positions = inputs.get(features.POSITION_IDS)
        x = self.embeddings(
            inputs[features.TOKEN_IDS], inputs.get(features.SEGMENT_IDS), position_ids=positions
        )
        if positions is None:
            return x, inputs[features.PADDING_MASK]
        return x, ExampleMask(name="example_mask")(inputs[features.EXAMPLE_IDS])

    def _before_last(self, inputs: dict, config: BertConfig) -> tuple[Any, Any]:
        """Return the hidden states that the last block reads, and the attention mask."""
        x, mask = self._embedded(inputs)
        for index in range(config.num_layers - 1):
            x = self._apply(self._block(index, config), x, mask, inputs)
        return x, mask

    def _apply(self, block: Any, x: Any, mask: Any, inputs: dict) -> Any:
        return block(x, mask, **self._positions(block, inputs))

    def _positions(self, block: Any, inputs: dict) -> dict[str, Any]:
        """Return the positions of the tokens, as an argument of a block that reads them."""
        if not block.reads_positions:
            return {}
        return {features.POSITION_IDS: inputs.get(features.POSITION_IDS)}

    def _normed(self, x: Any) -> Any:
        return x if self.final_norm is None else self.final_norm(x)

    def _read(self, x: Any) -> dict:
        """Return the outputs by name: the last hidden states, and the pooled vector."""
        outputs = {features.SEQUENCE_OUTPUT: x}
        if self.pooler is not None:
            outputs[features.POOLED_OUTPUT] = self.pooler(x)
        return outputs

    def _block(self, layer: int, config: BertConfig) -> Any:
        # Fewer blocks than layers: neighbouring layers share one (ALBERT's groups).
        layer %= config.num_layers
        return self.blocks[layer * len(self.blocks) // config.num_layers]
