"""The inputs and layers of an encoder, made from its config, and the pass over them."""

from __future__ import annotations

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


def transformer_blocks(config: BertConfig, policy: keras.DTypePolicy) -> list[TransformerBlock]:
    """The blocks of an encoder with this config, new ones."""
    return [
        TransformerBlock(
            config.hidden_size,
            config.heads_of(index),
            config.intermediate_size,
            activation=config.activation,
            attention_dropout=config.attention_dropout,
            relative_positions=None if config.position_rows else config.position_embedding,
            max_positions=config.max_positions,
            head_size=config.head_size,
            name=f"block_{index}",
            **_constants(config, policy),
        )
        for index in range(config.unique_layers)
    ]


def _constants(config: BertConfig, policy: keras.DTypePolicy) -> dict[str, Any]:
    return {
        "layer_norm_epsilon": config.layer_norm_epsilon,
        "dropout": config.dropout,
        "initializer_range": config.initializer_range,
        "dtype": policy,
    }


class EncoderLayers(NamedTuple):
    """Embeddings, blocks, and the pooler where there is one."""

    embeddings: BertEmbeddings
    blocks: list[TransformerBlock]
    pooler: Pooler | None

    @classmethod
    def of(cls, config: BertConfig, policy: keras.DTypePolicy) -> EncoderLayers:
        """New ones for this config."""
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
        pooler = None
        if config.pooler:
            pooler = Pooler(
                config.hidden_size, config.initializer_range, dtype=policy, name="pooler"
            )
        return cls(embeddings, blocks, pooler)

    def outputs(
        self, inputs: dict, config: BertConfig, hidden_states: bool, attentions: bool
    ) -> dict:
        """The encoder's outputs for its inputs; hidden states and attentions on request."""
        x, padding_mask = self._embedded(inputs)
        states, probabilities = [x], []
        for index in range(config.num_layers):
            block = self._block(index, config)
            attended, x = x, block(x, padding_mask)
            # After the block, which is what builds (and so names) the attention's variables.
            if attentions:
                look = AttentionProbabilities(block.attention, name=f"attentions_{index}")
                probabilities.append(look(attended, padding_mask))
            states.append(x)
        outputs = self._read(x)
        if hidden_states:
            outputs[features.HIDDEN_STATES] = tuple(states)
        if attentions:
            outputs[features.ATTENTIONS] = tuple(probabilities)
        return outputs

    def first_token(self, inputs: dict, config: BertConfig) -> dict:
        """The outputs with the first token alone in the last layer, and what that is given."""
        x, mask = self._before_last(inputs, config)
        first = FirstToken(self._block(-1, config), name="first_token")(x, mask)
        return {**self._read(first), features.BEFORE_LAST: x}

    def at_positions(self, inputs: dict, config: BertConfig, pooled: bool) -> dict:
        """The outputs with the masked tokens, and perhaps [CLS], alone in the last layer.

        Of rows of several examples too.
        """
        x, mask = self._before_last(inputs, config)
        pooler = self.pooler if pooled else None
        read = TokensOf(self._block(-1, config), pooler is not None, name="tokens")
        first = inputs.get(features.FIRST_POSITIONS)
        found = read(x, inputs[features.MASK_POSITIONS], mask, first)
        outputs = {features.BEFORE_LAST: x, features.SEQUENCE_OUTPUT: found}
        if pooler is not None:
            outputs[features.SEQUENCE_OUTPUT], vectors = found
            outputs[features.POOLED_OUTPUT] = pooler(vectors, every=first is not None)
        return outputs

    def packed(self, inputs: dict, config: BertConfig, hidden_states: bool) -> dict:
        """The outputs of rows of several examples, who do not see each other."""
        x, mask = self._embedded(inputs)
        states = [x]
        for index in range(config.num_layers):
            x = self._block(index, config)(x, mask)
            states.append(x)
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
            x = self._block(index, config)(x, mask)
        return x, mask

    def _read(self, x: Any) -> dict:
        """Return the outputs by name: the last hidden states, and the pooled vector."""
        outputs = {features.SEQUENCE_OUTPUT: x}
        if self.pooler is not None:
            outputs[features.POOLED_OUTPUT] = self.pooler(x)
        return outputs

    def _block(self, layer: int, config: BertConfig) -> TransformerBlock:
        # Fewer blocks than layers: neighbouring layers share one (ALBERT's groups).
        layer %= config.num_layers
        return self.blocks[layer * len(self.blocks) // config.num_layers]
