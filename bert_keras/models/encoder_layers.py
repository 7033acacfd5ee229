"""The inputs and layers of an encoder, made from its config, and the order of their calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras

from bert_keras import features
from bert_keras.config import BertConfig
from bert_keras.layers import (
    AttentionProbabilities,
    BertEmbeddings,
    FirstToken,
    Pooler,
    PreNormBlock,
    TokensAt,
    TokensOf,
    TransformerBlock,
)
from bert_keras.layers.normalization import normalization
from bert_keras.models.attention_context import (
    AttentionContext,
    attention_context,
    position_layers,
)


def encoder_inputs(config: BertConfig) -> dict[str, keras.KerasTensor]:
    """Make the symbolic inputs of an encoder, int32 [batch, length] each.

    These are `token_ids`, `segment_ids` if the config has two segments, and `padding_mask`.
    """
    return _inputs(config, features.PADDING_MASK)


def packed_inputs(config: BertConfig) -> dict[str, keras.KerasTensor]:
    """Make the symbolic inputs of the view for sequence packing; see `BertEncoder.packed`.

    These are, int32 [rows, length]: `token_ids`, `segment_ids` if the config has two segments,
    `position_ids` and `example_ids`; and `first_positions`, int32 [rows, examples].
    """
    return _inputs(config, features.POSITION_IDS, features.EXAMPLE_IDS, features.FIRST_POSITIONS)


def _inputs(config: BertConfig, *more: str) -> dict[str, keras.KerasTensor]:
    """Make the inputs for tokens and segments, and those of the names in `more`."""
    names = [features.TOKEN_IDS, *more]
    if config.num_segments > 1:
        names.insert(1, features.SEGMENT_IDS)
    return {name: keras.Input((None,), dtype="int32", name=name) for name in names}


# === Layers ===


class BlockKind(NamedTuple):
    """A kind of transformer block.

    Attributes:
        make: makes a block from a config, the number of the block and a dtype policy. See
            `TransformerBlock` for the calls of a block.
        make_final_norm: makes the normalisation after the last block, for pre-norm blocks; None for
            a kind without it.
    """

    make: Callable[[BertConfig, int, keras.DTypePolicy], Any]
    make_final_norm: Callable[[BertConfig, keras.DTypePolicy], keras.Layer] | None = None


def _block_options(config: BertConfig, index: int, policy: keras.DTypePolicy) -> dict[str, Any]:
    """Return the arguments of the block of the number `index`."""
    is_pruned = bool(config.pruned_heads)
    return {
        "hidden_size": config.hidden_size,
        "num_heads": config.heads_of(index),
        "intermediate_size": config.intermediate_size,
        "activation": config.activation,
        "attention_dropout": config.attention_dropout,
        "relative_positions": config.position_embedding if config.has_relative_positions else None,
        "max_positions": config.max_positions,
        "head_size": config.head_size,
        "positions": config.attention_positions,
        "position_buckets": config.position_buckets,
        "max_distance": config.max_distance,
        "num_key_value_heads": None if is_pruned else config.key_value_heads,
        "attention_bias": config.attention_bias,
        "key_bias": config.key_bias,
        "rotary_values": config.rotary_values,
        "gated": config.gated,
        "intermediate_bias": config.intermediate_bias,
        "output_bias": config.output_bias,
        "intermediate_dropout": config.intermediate_dropout,
        "norm": config.norm,
        "norm_bias": config.norm_bias,
        "name": f"block_{index}",
        **_constants(config, policy),
    }


def _post_norm_block(config: BertConfig, index: int, policy: keras.DTypePolicy) -> TransformerBlock:
    """Make BERT's block of the number `index`, which normalises after each residual sum."""
    return TransformerBlock(**_block_options(config, index, policy))


def _pre_norm_block(config: BertConfig, index: int, policy: keras.DTypePolicy) -> PreNormBlock:
    """Make the block of the number `index` that normalises before each sublayer."""
    has_norm = config.first_norm or index > 0
    return PreNormBlock(attention_norm=has_norm, **_block_options(config, index, policy))


def _final_norm(config: BertConfig, policy: keras.DTypePolicy) -> keras.Layer:
    """Make the normalisation after the last pre-norm block."""
    return normalization(
        config.norm,
        epsilon=config.layer_norm_epsilon,
        bias=config.norm_bias,
        dtype=policy,
        name="final_norm",
    )


# Value of `BertConfig.block` -> how its blocks are made.
BLOCKS = {
    "post_norm": BlockKind(_post_norm_block),
    "pre_norm": BlockKind(_pre_norm_block, _final_norm),
}


def transformer_blocks(config: BertConfig, policy: keras.DTypePolicy) -> list[Any]:
    """Make the blocks of an encoder: one for each layer, or fewer where layers share blocks."""
    make = BLOCKS[config.block].make
    return [make(config, index, policy) for index in range(config.unique_layers)]


def _constants(config: BertConfig, policy: keras.DTypePolicy) -> dict[str, Any]:
    """Return the arguments that embeddings and blocks have in common."""
    return {
        "layer_norm_epsilon": config.layer_norm_epsilon,
        "dropout": config.dropout,
        "initializer_range": config.initializer_range,
        "dtype": policy,
    }


class EncoderLayers(NamedTuple):
    """The layers of an encoder, and the ways to apply them to symbolic inputs.

    In the methods, `inputs` are the tensors by name of `encoder_inputs` or `packed_inputs`. The
    outputs are tensors by name. B is the batch, L the length, D the hidden_size.

    Attributes:
        embeddings: the sum of the token, position and segment tables.
        positions: the layers of `position_layers`.
        blocks: the transformer blocks; layers may share them.
        final_norm: the normalisation after the last block; None for a kind of block without it.
        pooler: the dense layer over [CLS]; None for a config without a pooler.
    """

    embeddings: BertEmbeddings
    positions: list[Any]
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
            norm=config.norm if config.embedding_norm else None,
            norm_bias=config.norm_bias,
            num_tasks=config.num_tasks,
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
        return cls(embeddings, position_layers(config, policy), blocks, final_norm, pooler)

    def outputs(
        self, inputs: dict, config: BertConfig, hidden_states: bool, attentions: bool
    ) -> dict:
        """Return the outputs of `BertEncoder`; hidden states and attentions on request."""
        x, context = self._embedded(inputs, config)
        states, probabilities = [x], []
        for index in range(config.num_layers):
            block_input, x = x, self._apply(index, x, context, config)
            # After the block, because the call of the block builds and names the variables.
            if attentions:
                block = self._block(index, config)
                probabilities_of = AttentionProbabilities(
                    block.attention, block.norm_before_attention, name=f"attentions_{index}"
                )
                mask, options = context.of(config.is_local(index))
                probabilities.append(probabilities_of(block_input, mask, **options))
            states.append(x)
        states[-1] = self._normed(x)
        outputs = self._last_outputs(states[-1])
        if hidden_states:
            outputs[features.HIDDEN_STATES] = tuple(states)
        if attentions:
            outputs[features.ATTENTIONS] = tuple(probabilities)
        return outputs

    def first_token(self, inputs: dict, config: BertConfig) -> dict:
        """Return the outputs of `BertEncoder.first_token`: `sequence_output` is [B, 1, D]."""
        x, context = self._before_last(inputs, config)
        apply_to_first = FirstToken(self._block(-1, config), name="first_token")
        mask, positions = context.of(config.is_local(config.num_layers - 1))
        first = apply_to_first(x, mask, **positions)
        return {**self._last_outputs(self._normed(first)), features.BEFORE_LAST: x}

    def at_positions(self, inputs: dict, config: BertConfig, pooled: bool) -> dict:
        """Return the outputs of `BertEncoder.at_positions`.

        Args:
            inputs: those of the encoder or of packed rows, and `mask_positions`, int32
                [B, predictions].
            config: the config of the encoder.
            pooled: True to compute the vectors of [CLS] too, and from them the pooled output.
        """
        x, context = self._before_last(inputs, config)
        pooler = self.pooler if pooled else None
        apply_to_tokens = TokensOf(self._block(-1, config), pooler is not None, name="tokens")
        first = inputs.get(features.FIRST_POSITIONS)
        mask, positions = context.of(config.is_local(config.num_layers - 1))
        vectors = apply_to_tokens(x, inputs[features.MASK_POSITIONS], mask, first, **positions)
        outputs = {features.BEFORE_LAST: x}
        if pooler is None:
            outputs[features.SEQUENCE_OUTPUT] = self._normed(vectors)
        else:
            tokens, first_tokens = map(self._normed, vectors)
            outputs[features.SEQUENCE_OUTPUT] = tokens
            outputs[features.POOLED_OUTPUT] = pooler(first_tokens, every=first is not None)
        return outputs

    def packed(self, inputs: dict, config: BertConfig, hidden_states: bool) -> dict:
        """Return the outputs of `BertEncoder.packed`; hidden states on request."""
        x, context = self._embedded(inputs, config)
        states = [x]
        for index in range(config.num_layers):
            x = self._apply(index, x, context, config)
            states.append(x)
        states[-1] = x = self._normed(x)
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
        """Return the last hidden states, [B, L, D].

        Args:
            x: input of the last block, [B, L, D].
            mask: padding mask, [B, L].
            config: the config of the encoder.
        """
        context = attention_context(self.positions, {features.PADDING_MASK: mask}, config)
        return self._normed(self._apply(config.num_layers - 1, x, context, config))

    def _embedded(self, inputs: dict, config: BertConfig) -> tuple[Any, AttentionContext]:
        """Return the embeddings, [B, L, D], and what the blocks share."""
        token_ids, position_ids = inputs[features.TOKEN_IDS], inputs.get(features.POSITION_IDS)
        segment_ids = inputs.get(features.SEGMENT_IDS)
        x = self.embeddings(token_ids, segment_ids, position_ids=position_ids)
        return x, attention_context(self.positions, inputs, config)

    def _before_last(self, inputs: dict, config: BertConfig) -> tuple[Any, AttentionContext]:
        """Return the input of the last block, [B, L, D], and what the blocks share."""
        x, context = self._embedded(inputs, config)
        for index in range(config.num_layers - 1):
            x = self._apply(index, x, context, config)
        return x, context

    def _apply(self, layer: int, x: Any, context: AttentionContext, config: BertConfig) -> Any:
        """Return the output of one layer for hidden states, both [B, L, D]."""
        mask, positions = context.of(config.is_local(layer))
        return self._block(layer, config)(x, mask, **positions)

    def _normed(self, x: Any) -> Any:
        """Return the output of the final normalisation, or `x` where there is none."""
        return x if self.final_norm is None else self.final_norm(x)

    def _last_outputs(self, x: Any) -> dict:
        """Return the last hidden states [B, L, D], and with a pooler its output [B, D], by name."""
        outputs = {features.SEQUENCE_OUTPUT: x}
        if self.pooler is not None:
            outputs[features.POOLED_OUTPUT] = self.pooler(x)
        return outputs

    def _block(self, layer: int, config: BertConfig) -> Any:
        """Return the block of a layer; -1 is the last layer.

        With fewer blocks than layers, neighbouring layers share one, as ALBERT's groups do.
        """
        layer %= config.num_layers
        return self.blocks[layer * len(self.blocks) // config.num_layers]
