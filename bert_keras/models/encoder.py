"""The encoder as a functional Keras model, and its views with other inputs or outputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import keras

from bert_keras import features
from bert_keras.config import BertConfig
from bert_keras.layers.embeddings import in_training
from bert_keras.layers.sharing import described, rebuilt
from bert_keras.models import adaptation
from bert_keras.models.attention_context import describe_attention
from bert_keras.models.base import DirectModel
from bert_keras.models.encoder_layers import EncoderLayers, encoder_inputs, packed_inputs
from bert_keras.models.vocabulary_size import ResizesVocabulary
from bert_keras.models.with_tokenizer import AnswersTexts

# The methods of `BertEncoder` that make a view. `from_config` calls no other one, because a config
# may come from an untrusted file.
VIEWS = ("with_outputs", "first_token", "at_positions", "packed")


@dataclasses.dataclass(frozen=True)
class _Origin:
    """The encoder that a view was made from, and the call that made it, for the view's config.

    Attributes:
        encoder: the encoder.
        method: the name of its method in `VIEWS`.
        options: the keyword arguments of the call.
    """

    encoder: BertEncoder
    method: str
    options: dict[str, bool]


@keras.saving.register_keras_serializable(package="bert_keras")
class EncoderView(DirectModel):
    """A model over the layers of an encoder that has other inputs or outputs, and the same weights.

    `BertEncoder.with_outputs`, `first_token`, `at_positions` and `packed` make views. A view is
    saved with the config of its encoder, and made again from the rebuilt encoder.
    """

    # A dataclass hides the encoder from Keras, which would make it a layer of the view.
    _origin: _Origin | None = None

    def include_unused(self) -> EncoderView:
        """Make all weights of the encoder weights of this view, also those that it does not use.

        A task has all weights of its encoder, also of an unused pooler. A clone of a task is made
        of the layers in its graph. Without this call it would lack the weights that the view does
        not use.

        Returns:
            This view.
        """
        if self._origin is not None:
            self.encoder = self._origin.encoder
        return self

    @described
    def get_config(self) -> dict[str, Any]:
        """Return the config for `from_config`: the encoder, and the method that makes the view."""
        if self._origin is None:  # Keras rebuilt it from a config of single layers
            return super().get_config()
        return {
            "name": self.name,
            "trainable": self.trainable,
            "encoder": keras.saving.serialize_keras_object(self._origin.encoder),
            "view": self._origin.method,
            "options": self._origin.options,
            "includes_unused": hasattr(self, "encoder"),
        }

    @classmethod
    @rebuilt
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> EncoderView:
        """Rebuild a view and the encoder that it is made from, with new weights.

        Raises:
            ValueError: the config names a method that is not in `VIEWS`.
        """
        if "layers" in config:
            return super().from_config(config, custom_objects)
        if config["view"] not in VIEWS:
            raise ValueError(
                f"`view` must be one of {', '.join(VIEWS)}. Received: {config['view']!r}"
            )
        encoder: Any = keras.saving.deserialize_keras_object(config["encoder"], custom_objects)
        view = getattr(encoder, config["view"])(**config["options"])
        view.name = config["name"]
        if not config["trainable"]:
            view.trainable = False
        if config["includes_unused"]:
            view.include_unused()
        return view

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None, **kwargs: Any):
        """Keras: compute the outputs by name for a dictionary of input tensors.

        Where no variable is trainable, dropout is off also in training, so that a frozen encoder
        gives the same vectors as in inference.
        """
        is_fixed = bool(training) and not self.trainable_variables
        with in_training(bool(training)):
            return super().call(inputs, False if is_fixed else training, mask, **kwargs)


@keras.saving.register_keras_serializable(package="bert_keras")
class BertEncoder(ResizesVocabulary, AnswersTexts, EncoderView):
    """A BERT-family encoder as a functional model: dictionaries in and out.

    Inputs, int32 [batch, length]: `token_ids`, `segment_ids` (0 first, 1 second segment; absent
    when the config has fewer than two segments) and `padding_mask` (1 = a real token).
    Outputs, floats of the compute dtype: `sequence_output` [batch, length, hidden_size], and
    `pooled_output` [batch, hidden_size] when the config has a pooler.

    Inputs may have the names of Hugging Face or TensorFlow Hub (`features.INPUT_ALIASES`). Labels
    and other keys of `features.IGNORED_KEYS` are ignored. A key that is unknown, missing or there
    twice is an error. `fit`, `evaluate` and `predict` refuse ids and lengths that no table has.

    In a functional model of your own, the encoder reads its inputs by name, but Keras pairs your
    model's inputs with a batch, and `fit` of your model checks no ids; see `checked`. There an id
    that is too large is an error on PyTorch, and on TensorFlow's CPU without XLA. On JAX it gives
    NaN at inference, and the last row of the table in training, so that no weight becomes NaN.

    With `trainable = False` the encoder is fixed: its weights stay, and there is no dropout, which
    Keras otherwise leaves active in a layer that is frozen. Set it before `compile`.

    Args:
        config: architecture and sizes.
        hidden_states: also output `hidden_states`, a tuple of num_layers + 1 tensors [batch,
            length, hidden_size]: the outputs of the embeddings and layers; last `sequence_output`.
        attentions: also output `attentions`, a tuple of num_layers tensors
            [batch, num_heads, length, length]: the attention probabilities of every layer.
        dtype: a Keras dtype policy; None for the global one.
        name: name of the Keras model.
    """

    task_name = "feature_extraction"
    head_layers: ClassVar[tuple[str, ...]] = ()

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
        layers = EncoderLayers.of(config, policy)
        # === Functional model ===
        inputs = encoder_inputs(config)
        outputs = layers.outputs(inputs, config, hidden_states, attentions)
        super().__init__(inputs=inputs, outputs=outputs, name=name)
        # On PyTorch, layers can be attributes only after the constructor of the base class.
        self.embeddings, self.positions, self.blocks, self.final_norm, self.pooler = layers
        # === Config ===
        self.config = config
        self.options: dict[str, Any] = {"hidden_states": hidden_states, "attentions": attentions}
        self.dtype_policy = policy
        # === State ===
        self.frozen_before_adapters: tuple[str, ...] | None = None  # see `adaptation.enable_lora`

    def with_outputs(self, *, hidden_states: bool = False, attentions: bool = False) -> EncoderView:
        """Return a view that also outputs hidden states or attention probabilities.

        Inputs: the encoder's.
        Outputs: the encoder's, and `hidden_states` and `attentions` as in the constructor.
        """
        inputs = encoder_inputs(self.config)
        outputs = self._stack.outputs(inputs, self.config, hidden_states, attentions)
        options = {"hidden_states": hidden_states, "attentions": attentions}
        return self._view(inputs, outputs, "outputs", _Origin(self, "with_outputs", options))

    def first_token(self) -> EncoderView:
        """Return a view whose last block computes the vector of [CLS] alone, to save time.

        Inputs: the encoder's.
        Outputs: `sequence_output` [batch, 1, hidden_size], the encoder's `pooled_output`, and
        `before_last` [batch, length, hidden_size], the input of the last block.
        """
        inputs = encoder_inputs(self.config)
        outputs = self._stack.first_token(inputs, self.config)
        return self._view(inputs, outputs, "first_token", _Origin(self, "first_token", {}))

    def at_positions(self, *, packed: bool = False, pooled: bool = False) -> EncoderView:
        """Return a view whose last block computes the vectors of masked tokens alone, to save time.

        Inputs: the encoder's, or with `packed` those of `BertEncoder.packed`; and
        `mask_positions`, int32 [batch, predictions], the places of the masked tokens in their rows.
        Outputs: `sequence_output` [batch, predictions, hidden_size], the vectors at these
        positions; `before_last` [batch, length, hidden_size], the input of the last block; with
        `pooled` also `pooled_output` [batch, hidden_size], or [rows, examples, hidden_size] of
        packed rows.

        Args:
            packed: True for rows of several examples.
            pooled: True to compute the vector of [CLS] too, and from it the pooled output.
        """
        inputs = packed_inputs(self.config) if packed else encoder_inputs(self.config)
        name = features.MASK_POSITIONS
        inputs[name] = keras.Input((None,), dtype="int32", name=name)
        outputs = self._stack.at_positions(inputs, self.config, pooled)
        options = {"packed": packed, "pooled": pooled}
        origin = _Origin(self, "at_positions", options)
        return self._view(inputs, outputs, "at_positions", origin)

    def packed(self, *, hidden_states: bool = False) -> EncoderView:
        """Return a view for sequence packing: several examples in each row.

        Each token attends to the tokens of its own example alone.

        Inputs, int32: `token_ids`, `segment_ids` (absent as in the encoder), `position_ids` (from 0
        within each example) and `example_ids` (from 1 within each row, 0 = padding): [rows,
        length]; `first_positions` [rows, examples], where each example begins, 0 in unused slots.
        `data.PackedExamples` makes them.
        Outputs: `sequence_output` [rows, length, hidden_size]; `first_output` and, with a pooler,
        `pooled_output` [rows, examples, hidden_size], from the [CLS] of each example, without
        meaning in unused slots; on request `hidden_states`, as in the constructor.

        `max_positions` limits the length of an example, not of a row. With relative positions it
        limits the row too.
        """
        inputs = packed_inputs(self.config)
        outputs = self._stack.packed(inputs, self.config, hidden_states)
        origin = _Origin(self, "packed", {"hidden_states": hidden_states})
        return self._view(inputs, outputs, "packed", origin)

    def last_block(self, hidden_states: Any, padding_mask: Any) -> Any:
        """Run the last block alone, for a view that gave the vectors of few tokens.

        Args:
            hidden_states: input of the last block, float [batch, length, hidden_size], such as
                `before_last` of a view.
            padding_mask: int32 [batch, length], 1 for real tokens.

        Returns:
            The last hidden states of all tokens, [batch, length, hidden_size].
        """
        return self._stack.last_block(hidden_states, padding_mask, self.config)

    def _view(self, inputs: dict, outputs: dict, name: str, origin: _Origin) -> EncoderView:
        """Make a view of symbolic inputs and outputs by name; `origin` goes into its config."""
        view = EncoderView(inputs, outputs, name=f"{self.name}_{name}")
        view._origin = origin
        view.dtype_policy = self.dtype_policy
        return view

    @property
    def _stack(self) -> EncoderLayers:
        """The layers of this encoder, to apply them to other inputs."""
        layers = self.embeddings, self.positions, self.blocks, self.final_norm, self.pooler
        return EncoderLayers(*layers)

    def prune_heads(self, heads: Mapping[int, Sequence[int]], **options: Any) -> BertEncoder:
        """Return an encoder without some attention heads; see `adaptation.prune_heads`."""
        return adaptation.prune_heads(self, heads, **options)

    def keep_layers(self, layers: int | Sequence[int], **options: Any) -> BertEncoder:
        """Return an encoder with some of the layers; see `adaptation.keep_layers`."""
        return adaptation.keep_layers(self, layers, **options)

    def enable_lora(
        self,
        rank: int,
        *,
        alpha: float | None = None,
        layers: Sequence[str] = ("query", "value"),
    ) -> None:
        """Add low-rank adapters and freeze all else; see `adaptation.enable_lora`."""
        adaptation.enable_lora(self, rank, alpha=alpha, layers=layers)

    def merge_lora(self) -> None:
        """Add the adapters to their kernels; see `adaptation.merge_lora`."""
        adaptation.merge_lora(self)

    def checkpoint_gradients(self, on: bool = True) -> None:
        """Switch gradient checkpointing on or off (Chen et al., 2016), to save memory in training.

        The forward pass keeps the input of each block alone, and the backward pass computes the
        rest again. A step costs one more forward pass. Outputs, gradients and dropout masks stay
        the same. Call it before `fit`; it is saved with the model.
        """
        for block in self.blocks:
            block.checkpoints_gradients = on

    def describe_kernels(self) -> dict[str, str]:
        """Return a sentence on the attention kernel in use, for "inference" and for "training"."""
        dtype, is_fixed = self.dtype_policy.compute_dtype, not self.trainable_variables
        return describe_attention(self.config, dtype, is_fixed=is_fixed)

    @described
    def get_config(self) -> dict[str, Any]:
        """Return the config for `from_config`: the `BertConfig` as JSON values, and the options."""
        return {
            "config": self.config.to_dict(),
            "name": self.name,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            **self.options,
        }

    @classmethod
    @rebuilt
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> BertEncoder:
        """Rebuild an encoder, with new weights."""
        del custom_objects  # nothing in the config is an object
        values = dict(config)
        return cls(BertConfig.from_dict(values.pop("config")), **values)

    @classmethod
    def from_preset(
        cls,
        handle: str | Path,
        *,
        load_weights: bool = True,
        allow_missing: str | Sequence[str] = (),
        allow_pickle: bool = False,
        trust: bool = False,
        **options: Any,
    ) -> BertEncoder:
        """Open a checkpoint: a folder, a repository of the Hugging Face hub, or a preset.

        Args:
            handle: a folder (ours, Hugging Face's, Google's TF1, KerasHub's, TensorFlow Hub's), a
                repository "hf://organisation/name[@revision]", or a name of `PRESETS`, which stands
                for its published checkpoint unless there is a local folder of that name.
            load_weights: False to take only the config: new, random weights. A name of `PRESETS`
                then needs no network.
            allow_missing: variable paths (or their beginnings, such as "pooler") that the
                checkpoint may lack; they keep new weights. One name or several.
            allow_pickle: also read a pytorch_model.bin, with PyTorch's `weights_only`, where there
                are no safetensors files.
            trust: also read a SavedModel of one of Google's encoders from TensorFlow Hub or Kaggle.
                Its variables are read, and its program is not run. `Task.from_preset` lists the
                values that it lacks. A SavedModel of `export.tf_hub` needs no trust.
            options: `hidden_states`, `attentions`, `dtype`, `name`; `vocab_size` for another number
                of token rows, see `resize_vocabulary`; `variant` and `averages`, see
                `load_checkpoint`; and `plain`: True to merge adapters, make floats of quantised
                weights and freeze nothing, as other libraries do. Else the model is as saved.

        Raises:
            ArtifactError: the folder cannot be read, or its tensors do not fit the model.
        """
        from bert_keras.checkpoints import folders

        return folders.load_encoder(
            cls,
            handle,
            load_weights=load_weights,
            allow_missing=allow_missing,
            allow_pickle=allow_pickle,
            trust=trust,
            **options,
        )

    @classmethod
    def head_layers_for(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        """Return (): an encoder has no head."""
        del options
        return cls.head_layers

    def vector_model(self) -> BertEncoder:
        """Return the model whose output `Predictor.encode` makes vectors of: the encoder itself."""
        return self

    def save_to_preset(
        self, directory: str | Path, *, card: Mapping[str, Any] | None = None, private: bool = True
    ) -> None:
        """Write a checkpoint folder that `from_preset` and Hugging Face's library open.

        `from_preset` opens the same model: frozen parts, adapters, int8 weights and gradient
        checkpointing are kept. Other libraries read adapters merged and int8 weights as floats.

        Args:
            directory: folder, or "hf://organisation/name[@branch]" to upload to the Hub.
            card: facts for the model card: license, language and others of `model_card.ModelCard`.
            private: whether a repository that is created is private.
        """
        from bert_keras.checkpoints import folders

        folders.write_checkpoint(self, directory, card=card, private=private)
