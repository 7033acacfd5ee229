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
    ExampleMask,
    FirstToken,
    Pooler,
    TokensAt,
    TokensOf,
    TransformerBlock,
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
        make: makes a block from a config, the number of the block and a dtype policy. A block is
            called with the hidden states [batch, length, hidden_size] and the attention mask
            [batch, length] or [batch, length, length]. A block with `reads_positions` also gets
            `position_ids`: int32 [batch, length], or None for 0, 1, 2 and so on.
        make_final_norm: makes the normalisation after the last block, for pre-norm blocks; None for
            a kind without it.
    """

    make: Callable[[BertConfig, int, keras.DTypePolicy], Any]
    make_final_norm: Callable[[BertConfig, keras.DTypePolicy], keras.Layer] | None = None


def _post_norm_block(config: BertConfig, index: int, policy: keras.DTypePolicy) -> TransformerBlock:
    """Make BERT's block of the number `index`, which normalises after each residual sum."""
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
        blocks: the transformer blocks; layers may share them.
        final_norm: the normalisation after the last block; None for a kind of block without it.
        pooler: the dense layer over [CLS]; None for a config without a pooler.
    """

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
        """Return the outputs of `BertEncoder`; hidden states and attentions on request."""
        x, padding_mask = self._embedded(inputs)
        states, probabilities = [x], []
        for index in range(config.num_layers):
            block = self._block(index, config)
            block_input, x = x, self._apply(block, x, padding_mask, inputs)
            # After the block, because the call of the block builds and names the variables.
            if attentions:
                probabilities_of = AttentionProbabilities(
                    block.attention, block.norm_before_attention, name=f"attentions_{index}"
                )
                positions = self._positions(block, inputs)
                probabilities.append(probabilities_of(block_input, padding_mask, **positions))
            states.append(x)
        outputs = self._last_outputs(self._normed(x))
        if hidden_states:
            outputs[features.HIDDEN_STATES] = tuple(states)
        if attentions:
            outputs[features.ATTENTIONS] = tuple(probabilities)
        return outputs

    def first_token(self, inputs: dict, config: BertConfig) -> dict:
        """Return the outputs of `BertEncoder.first_token`: `sequence_output` is [B, 1, D]."""
        x, mask = self._before_last(inputs, config)
        block = self._block(-1, config)
        apply_to_first = FirstToken(block, name="first_token")
        first = apply_to_first(x, mask, **self._positions(block, inputs))
        return {**self._last_outputs(self._normed(first)), features.BEFORE_LAST: x}

    def at_positions(self, inputs: dict, config: BertConfig, pooled: bool) -> dict:
        """Return the outputs of `BertEncoder.at_positions`.

        Args:
            inputs: those of the encoder or of packed rows, and `mask_positions`, int32
                [B, predictions].
            config: the config of the encoder.
            pooled: True to compute the vectors of [CLS] too, and from them the pooled output.
        """
        x, mask = self._before_last(inputs, config)
        pooler = self.pooler if pooled else None
        block = self._block(-1, config)
        apply_to_tokens = TokensOf(block, pooler is not None, name="tokens")
        first = inputs.get(features.FIRST_POSITIONS)
        positions = self._positions(block, inputs)
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
        """Return the last hidden states, [B, L, D].

        Args:
            x: input of the last block, [B, L, D].
            mask: attention mask of the last block, [B, L].
            config: the config of the encoder.
        """
        return self._normed(self._apply(self._block(-1, config), x, mask, {}))

    def _embedded(self, inputs: dict) -> tuple[Any, Any]:
        """Return the embeddings, [B, L, D], and the attention mask.

        The mask is the padding mask, [B, L]; of packed rows [B, L, L], so that each token attends
        to its own example alone.
        """
        positions = inputs.get(features.POSITION_IDS)
        x = self.embeddings(
            inputs[features.TOKEN_IDS], inputs.get(features.SEGMENT_IDS), position_ids=positions
        )
        if positions is None:
            return x, inputs[features.PADDING_MASK]
        return x, ExampleMask(name="example_mask")(inputs[features.EXAMPLE_IDS])

    def _before_last(self, inputs: dict, config: BertConfig) -> tuple[Any, Any]:
        """Return the input of the last block, [B, L, D], and the attention mask of `_embedded`."""
        x, mask = self._embedded(inputs)
        for index in range(config.num_layers - 1):
            x = self._apply(self._block(index, config), x, mask, inputs)
        return x, mask

    def _apply(self, block: Any, x: Any, mask: Any, inputs: dict) -> Any:
        """Return the output of one block for hidden states, both [B, L, D]."""
        return block(x, mask, **self._positions(block, inputs))

    def _positions(self, block: Any, inputs: dict) -> dict[str, Any]:
        """Return {"position_ids": …} for a block that reads positions, and {} for others."""
        if not block.reads_positions:
            return {}
        return {features.POSITION_IDS: inputs.get(features.POSITION_IDS)}

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
