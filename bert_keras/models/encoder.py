"""The encoder: the one place where blocks are stacked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras

from bert_keras import features
from bert_keras.config import BertConfig
from bert_keras.layers import AttentionProbabilities, BertEmbeddings, Pooler, TransformerBlock


@keras.saving.register_keras_serializable(package="bert_keras")
class BertEncoder(keras.Model):
    """A BERT-family encoder as a functional model: dictionaries in and out.

    Inputs, int32 [batch, length]: `token_ids`, `segment_ids` (0 first, 1 second segment; absent
    when the config has fewer than two segments) and `padding_mask` (1 = a real token).
    Outputs: `sequence_output` [batch, length, hidden_size], and `pooled_output`
    [batch, hidden_size] when the config has a pooler.

    Args:
        config: the sizes.
        hidden_states: also output `hidden_states`, a tuple of num_layers + 1 tensors
            [batch, length, hidden_size]: the embeddings' and every block's.
        attentions: also output `attentions`, a tuple of num_layers tensors
            [batch, num_heads, length, length].
        dtype: a Keras dtype policy; None for the global one.
        name: of the Keras model.
    """

    def __init__(
        self,
        config: BertConfig,
        *,
        hidden_states: bool = False,
        attentions: bool = False,
        dtype: Any = None,
        name: str = "encoder",
    ):
        policy = keras.dtype_policies.get(dtype or keras.config.dtype_policy())
        # === Layers ===
        layers = _Layers.of(config, policy)
        # === Functional model ===
        inputs = encoder_inputs(config)
        outputs = layers.outputs(inputs, config, hidden_states, attentions)
        super().__init__(inputs=inputs, outputs=outputs, name=name)
        # Attributes come after: the PyTorch backend takes layers only from here on.
        self.embeddings, self.blocks, self.pooler = layers
        # === Config ===
        self.config = config
        self.options = {"hidden_states": hidden_states, "attentions": attentions}
        self.dtype_policy = policy

    def with_outputs(self, *, hidden_states: bool = False, attentions: bool = False) -> keras.Model:
        """The same layers, so the same weights, with more outputs: a view for looking inside."""
        inputs = encoder_inputs(self.config)
        layers = _Layers(self.embeddings, self.blocks, self.pooler)
        outputs = layers.outputs(inputs, self.config, hidden_states, attentions)
        return keras.Model(inputs, outputs, name=f"{self.name}_outputs")

    def prune_heads(self, heads: Mapping[int, Sequence[int]], **options: Any) -> BertEncoder:
        """A smaller encoder without some attention heads; see `surgery.prune_heads`."""
        from bert_keras.models import surgery

        return surgery.prune_heads(self, heads, **options)

    def keep_layers(self, layers: int | Sequence[int], **options: Any) -> BertEncoder:
        """A shallower encoder with some of the layers; see `surgery.keep_layers`."""
        from bert_keras.models import surgery

        return surgery.keep_layers(self, layers, **options)

    def get_config(self) -> dict[str, Any]:
        """What `from_config` rebuilds the encoder from."""
        return {
            "config": self.config.to_dict(),
            "name": self.name,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            **self.options,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> BertEncoder:
        """Rebuilds an encoder, with new weights."""
        del custom_objects  # nothing in the config is an object
        values = dict(config)
        return cls(BertConfig.from_dict(values.pop("config")), **values)

    @classmethod
    def from_preset(
        cls,
        handle: str | Path,
        *,
        load_weights: bool = True,
        allow_missing: tuple[str, ...] = (),
        allow_pickle: bool = False,
        trust: bool = False,
        **options: Any,
    ) -> BertEncoder:
        """Opens a checkpoint folder, or makes a model of a published size.

        Args:
            handle: a folder (ours, Hugging Face's, Google's TF1, KerasHub's, TensorFlow Hub's), a
                repository "hf://organisation/name[@revision]", or a name of `PRESETS`, which gives
                new, random weights.
            load_weights: False to take only the config.
            allow_missing: variable paths (or their beginnings, such as "pooler") that the
                checkpoint may lack; they keep new weights.
            allow_pickle: also read a pytorch_model.bin, with PyTorch's `weights_only`, where there
                are no safetensors files.
            trust: also read a SavedModel of TensorFlow Hub or Kaggle, one of Google's encoders. Of
                this program only the variables are read, and none of it is run; what they do not
                tell is as Google published it: activation "gelu_tanh", layer_norm_epsilon 1e-12,
                dropout 0.1 (ALBERT: 0), ALBERT's number of layers. A bert_config.json or
                albert_config.json of Google's beside saved_model.pb is believed instead.
            options: `hidden_states`, `attentions`, `dtype`, `name`.

        Raises:
            ArtifactError: the folder cannot be read, or its tensors are not the model's.
        """
        from bert_keras.checkpoints import api

        return api.load_encoder(
            handle,
            load_weights=load_weights,
            allow_missing=allow_missing,
            allow_pickle=allow_pickle,
            trust=trust,
            **options,
        )

    def save_to_preset(self, directory: str | Path) -> None:
        """Writes a checkpoint folder that `from_preset` and Hugging Face's library open."""
        from bert_keras.checkpoints import api

        api.save_checkpoint(self, directory)


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


class _Layers(NamedTuple):
    """The encoder's layers, and the one pass over them."""

    embeddings: BertEmbeddings
    blocks: list[TransformerBlock]
    pooler: Pooler | None

    @classmethod
    def of(cls, config: BertConfig, policy: keras.DTypePolicy) -> _Layers:
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
        padding_mask = inputs[features.PADDING_MASK]
        x = self.embeddings(inputs[features.TOKEN_IDS], inputs.get(features.SEGMENT_IDS))
        states, probabilities = [x], []
        for index in range(config.num_layers):
            # Fewer blocks than layers: neighbouring layers share one (ALBERT's groups).
            block = self.blocks[index * len(self.blocks) // config.num_layers]
            attended, x = x, block(x, padding_mask)
            # After the block, which is what builds (and so names) the attention's variables.
            if attentions:
                look = AttentionProbabilities(block.attention, name=f"attentions_{index}")
                probabilities.append(look(attended, padding_mask))
            states.append(x)
        outputs = {features.SEQUENCE_OUTPUT: x}
        if self.pooler is not None:
            outputs[features.POOLED_OUTPUT] = self.pooler(x)
        if hidden_states:
            outputs[features.HIDDEN_STATES] = tuple(states)
        if attentions:
            outputs[features.ATTENTIONS] = tuple(probabilities)
        return outputs


def encoder_inputs(config: BertConfig) -> dict[str, keras.KerasTensor]:
    """New symbolic inputs of an encoder with this config."""
    names = [features.TOKEN_IDS, features.PADDING_MASK]
    if config.num_segments > 1:
        names.insert(1, features.SEGMENT_IDS)
    return {name: keras.Input((None,), dtype="int32", name=name) for name in names}
