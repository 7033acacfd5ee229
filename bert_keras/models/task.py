"""Base of all tasks: a model of an encoder, a head, options and a loss."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import keras

from bert_keras import features
from bert_keras.earlier_names import METHODS_OF_TASKS, EarlierNames, saved_options
from bert_keras.layers import ScalarMix
from bert_keras.layers.sharing import described, rebuilt
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.encoder_layers import encoder_inputs
from bert_keras.models.task_views import ChunkedTask, PackedTask
from bert_keras.models.text_fit import FitsText
from bert_keras.tokenizers import Tokenizer

LAST = "last"
CONCAT = "concat_last_4"
MIX = "mix"
REPRESENTATIONS = (LAST, CONCAT, MIX)
_LAYERS = 4  # of a concatenation


def token_vectors(encoder: BertEncoder, inputs: dict, representation: str = LAST) -> Any:
    """Return the vectors of all tokens, for a head that reads them.

    Args:
        encoder: the encoder.
        inputs: symbolic inputs of the encoder, by name.
        representation: layers that the vectors are made of. "last": the last layer, [batch, length,
            hidden_size]. "concat_last_4": the last four layers side by side, [batch, length,
            4 * hidden_size], which Devlin et al. (2019, §5.3) found best for an encoder that is not
            trained. "mix": a learned weighted sum of the embeddings and all layers, [batch, length,
            hidden_size] (Peters et al., 2018, equation 1).

    Raises:
        ValueError: the representation is unknown, or needs more layers than the encoder has.
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
            f"representation={representation!r} needs an encoder of {_LAYERS} layers or more; "
            f"{LAST!r} works with any. Received: num_layers={encoder.config.num_layers}"
        )
    encoded = encoder.with_outputs(hidden_states=True)(inputs)
    mix = ScalarMix(dtype=encoder.dtype_policy, name=MIX) if representation == MIX else None
    return read_representation(encoded, mix)


def packed_vectors(task: Task, inputs: dict) -> Any:
    """Return the vectors of all tokens of packed rows, in the representation of a task.

    Args:
        task: the task, whose option `representation` and layer for "mix" are used.
        inputs: symbolic inputs of `BertEncoder.packed`, by name.

    Returns:
        A symbolic tensor [rows, length, width], as `token_vectors` returns for rows of one example.
    """
    representation = task.options.get("representation", LAST)
    encoded = task.encoder.packed(hidden_states=representation != LAST)(inputs)
    return read_representation(encoded, task.get_layer(MIX) if representation == MIX else None)


def read_representation(encoded: dict, mix: ScalarMix | None = None) -> Any:
    """Return the vectors of all tokens from the outputs of an encoder.

    Args:
        encoded: outputs by name, with `hidden_states` where more than the last layer is read.
        mix: layer that sums the hidden states; None to put the last four side by side.
    """
    if features.HIDDEN_STATES not in encoded:
        return encoded[features.SEQUENCE_OUTPUT]
    states = list(encoded[features.HIDDEN_STATES])
    return keras.ops.concatenate(states[-_LAYERS:], axis=-1) if mix is None else mix(states)


# === Task ===


class Task(EarlierNames, FitsText):
    """A functional model over an encoder, with a head. Abstract; every task class is final.

    A task is made from its encoder and options (JSON values) alone, and is saved as these.

    Attributes:
        encoder: the `BertEncoder` that was passed, the same object.
        options: arguments of the constructor besides encoder, name and tokenizer.
    """

    earlier_names = METHODS_OF_TASKS
    # Beginnings of the paths of variables that belong to the head.
    head_layers: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        encoder: BertEncoder,
        inputs: dict,
        outputs: dict,
        options: dict,
        name: str,
        tokenizer: Tokenizer | None = None,
    ):
        super().__init__(inputs=inputs, outputs=outputs, name=name)
        self.encoder = encoder
        self.tokenizer = tokenizer
        self.options = options
        # `compile` scales the loss by this policy (mixed_float16).
        self.dtype_policy = encoder.dtype_policy

    @property
    def reads_pooler(self) -> bool:
        """True where the head reads the encoder's pooled output."""
        return False

    @property
    def unused_variables(self) -> Sequence[Any]:
        """The variables of the pooler where the head does not read it; see `WithoutUnused`."""
        pooler = self.encoder.pooler
        return () if pooler is None or self.reads_pooler else pooler.variables

    def get_layer(self, name: str | None = None, index: int | None = None) -> Any:
        """Return a layer by name or index; under the name "encoder" the encoder itself.

        `output` of the encoder and of its layers belongs to the graph of the encoder, which starts
        at `encoder.input`. It is not part of the graph of the task. A task that reads few tokens
        runs a view of the encoder, which computes only these tokens in the last block.
        """
        if name in (self.encoder.name, "encoder") and index is None:
            return self.encoder
        return super().get_layer(name, index)

    def trained_model(self) -> Task:
        """Return the model to keep after training: the task itself, or a part of it."""
        return self

    @classmethod
    def head_layers_for(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the `head_layers` of a task with these options; () where it has no head."""
        del options
        return cls.head_layers

    @abc.abstractmethod
    def loss_and_metrics(self) -> dict[str, Any]:
        """Return arguments of `compile`: `task.compile(optimizer, **task.loss_and_metrics())`.

        Returns:
            "loss", a Keras loss for each output by name; and where the task has them
            "loss_weights" and "weighted_metrics", by name too.
        """

    def packed(self) -> PackedTask:
        """Return a view of this task for sequence packing, with the same weights: see `PackedTask`.

        Raises:
            ValueError: sequence packing does not work with this task.
        """
        return PackedTask(self)

    def loss_chunks(self, chunks: int) -> ChunkedTask:
        """Return a view that computes the loss of masked tokens in chunks; see `ChunkedTask`.

        The logits of the whole vocabulary are never in memory at once.

        Args:
            chunks: number of parts of the vocabulary.

        Raises:
            ValueError: the task does not predict masked tokens.
        """
        return ChunkedTask(self, chunks)

    def packed_outputs(self, inputs: dict) -> dict:
        """Return the outputs of `packed()` by name, for symbolic inputs.

        Args:
            inputs: those of `BertEncoder.packed`, by name. Inputs of the task itself, such as
                `mask_positions`, are added to this dictionary.

        Raises:
            ValueError: sequence packing does not work with this task.
        """
        del inputs
        raise ValueError(
            "Sequence packing works with MaskedLM, Pretrainer, SequenceClassifier, and "
            "TokenClassifier with crf=False. Train other tasks without `packed()`. "
            f"Received: {type(self).__name__}"
        )

    @described
    def get_config(self) -> dict[str, Any]:
        """Return the config for `from_config`: the encoder, the name and the options."""
        encoder = keras.saving.serialize_keras_object(self.encoder)
        return {"encoder": encoder, "name": self.name, **self.options}

    @classmethod
    @rebuilt
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None):
        """Rebuild a task, with new weights."""
        values = saved_options(config)
        encoder = keras.saving.deserialize_keras_object(values.pop("encoder"), custom_objects)
        return cls(encoder, **values)

    @classmethod
    def from_preset(
        cls,
        handle: str | Path,
        *,
        load_weights: bool = True,
        allow_missing: str | Sequence[str] = (),
        allow_unused: str | Sequence[str] = (),
        new_head: bool = False,
        allow_pickle: bool = False,
        trust: bool = False,
        dtype: Any = None,
        **options: Any,
    ):
        """Open a checkpoint as this task.

        `labels=` or `num_classes=` on a checkpoint without a head of this task makes a new head: it
        gets random weights, the other heads are left out, and one printed line says so. Where the
        checkpoint has a head of this task, that head is loaded if it has the same labels in the
        same order, or as many labels without names ("LABEL_0", …). Other labels are an error.

        Args:
            handle: a folder (ours, Hugging Face's, Google's TF1, KerasHub's, TensorFlow Hub's), a
                repository "hf://organisation/name[@revision]", or a name of `PRESETS`, which stands
                for its published checkpoint unless there is a local folder of that name.
            load_weights: False to take only the config: new, random weights. A name of `PRESETS`
                then needs no network.
            allow_missing: variable paths (or their beginnings, such as "mlm") that the checkpoint
                may lack; they keep new weights. One name or several.
            allow_unused: paths of the checkpoint's heads that this task does without; likewise.
            new_head: True makes a new head, also where the checkpoint has one. Its labels are those
                of `labels=` or `num_classes=`, else those of the checkpoint's head of this task.
                A task without labels, such as `MaskedLM`, gets a new head with new weights. The
                checkpoint's heads are left out, and one printed line says so.
            allow_pickle: also read a pytorch_model.bin, with PyTorch's `weights_only`, where there
                are no safetensors files.
            trust: also read a SavedModel of one of Google's encoders from TensorFlow Hub or Kaggle.
                Its variables are read, and its program is not run. Values that the variables do not
                show are those that Google published: activation "gelu_tanh", layer_norm_epsilon
                1e-12, dropout 0.1 (ALBERT: 0), ALBERT's number of layers. A bert_config.json or
                albert_config.json of Google's beside saved_model.pb takes precedence. A SavedModel
                of `export.tf_hub` has all values and needs no trust.
            dtype: a Keras dtype policy; None for the global one.
            options: the task's own arguments, where the checkpoint does not have them; `variant`
                and `averages`, see `load_checkpoint`; `plain`, see `BertEncoder.from_preset`. A
                folder of another class, or with other arguments, is always read with plain=True,
                because the task over its encoder is a new one.

        Raises:
            ArtifactError: the folder cannot be read, its tensors do not fit the task, its head has
                other labels than the arguments, or it is the head of another task.
            UsageError: new_head=True for a task without a head, such as `SentenceEncoder`.
        """
        from bert_keras.checkpoints import folders

        return folders.load_task(
            cls,
            BertEncoder,
            handle,
            load_weights=load_weights,
            allow_missing=allow_missing,
            allow_unused=allow_unused,
            new_head=new_head,
            allow_pickle=allow_pickle,
            trust=trust,
            dtype=dtype,
            **options,
        )

    def save_to_preset(
        self, directory: str | Path, *, card: Mapping[str, Any] | None = None, private: bool = True
    ) -> None:
        """Write a checkpoint folder that `from_preset` and Hugging Face's library open.

        See `BertEncoder.save_to_preset`.
        """
        from bert_keras.checkpoints import folders

        folders.write_checkpoint(self, directory, card=card, private=private)


def task_inputs(encoder: BertEncoder) -> dict[str, keras.KerasTensor]:
    """Make the symbolic inputs of an encoder, int32 [batch, length] each, by name.

    A task adds its own inputs to them; see `encoder_layers.encoder_inputs`.
    """
    return encoder_inputs(encoder.config)
