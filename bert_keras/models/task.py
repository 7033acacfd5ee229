"""Base of all tasks: an encoder, options, a loss."""

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
            f"representation={representation!r} needs an encoder of {_LAYERS} layers or more; "
            f"{LAST!r} works with any. Received: num_layers={encoder.config.num_layers}"
        )
    encoded = encoder.with_outputs(hidden_states=True)(inputs)
    mix = ScalarMix(dtype=encoder.dtype_policy, name=MIX) if representation == MIX else None
    return read_representation(encoded, mix)


def packed_vectors(task: Task, inputs: dict) -> Any:
    """As `token_vectors`, of rows of several examples: what this task's head reads."""
    representation = task.options.get("representation", LAST)
    encoded = task.encoder.packed(hidden_states=representation != LAST)(inputs)
    return read_representation(encoded, task.get_layer(MIX) if representation == MIX else None)


def read_representation(encoded: dict, mix: ScalarMix | None = None) -> Any:
    """The vectors of the tokens, of an encoder's outputs.

    Args:
        encoded: with `hidden_states` where more than the last layer is read.
        mix: of the layers; None for the last four side by side.
    """
    if features.HIDDEN_STATES not in encoded:
        return encoded[features.SEQUENCE_OUTPUT]
    states = list(encoded[features.HIDDEN_STATES])
    return keras.ops.concatenate(states[-_LAYERS:], axis=-1) if mix is None else mix(states)


# === Task ===


class Task(EarlierNames, FitsText):
    """A functional model over an encoder, with a head. Abstract; every task class is final.

    A task is made from its encoder and options (JSON values) alone, which is how it is saved.

    Attributes:
        encoder: the `BertEncoder` below; the same object that was given.
        options: the task's own arguments.
    """

    earlier_names = METHODS_OF_TASKS
    # Beginnings of variable paths that belong to the head.
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
        """The variables of a pooler that the head does not read."""
        pooler = self.encoder.pooler
        return () if pooler is None or self.reads_pooler else pooler.variables

    def get_layer(self, name: str | None = None, index: int | None = None) -> Any:
        """Return a layer by name or index; under the name "encoder" the encoder itself.

        The encoder's `output`, and that of its layers, belongs to the graph of the encoder, which
        starts at `encoder.input`. It is not the output within the task: there a task that reads
        few tokens runs a view, which computes no other token in the last block.
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
        """Loss and metrics: `task.compile(optimizer, **task.loss_and_metrics())`."""

    def packed(self) -> PackedTask:
        """The same task on rows of several examples: a view to train; see `PackedTask`.

        Raises:
            ValueError: a task that cannot be so.
        """
        return PackedTask(self)

    def loss_chunks(self, chunks: int) -> ChunkedTask:
        """The same task, never with the logits of all the vocabulary: a view; see `ChunkedTask`.

        Raises:
            ValueError: a task without masked tokens.
        """
        return ChunkedTask(self, chunks)

    def packed_outputs(self, inputs: dict) -> dict:
        """The outputs of `packed` for the inputs of its encoder, to which it adds its own.

        Raises:
            ValueError: a task that cannot be so.
        """
        del inputs
        raise ValueError(
            "Sequence packing works with MaskedLM, Pretrainer, SequenceClassifier, and "
            "TokenClassifier with crf=False. Train other tasks without `packed()`. "
            f"Received: {type(self).__name__}"
        )

    @described
    def get_config(self) -> dict[str, Any]:
        """Return what `from_config` rebuilds the task from."""
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
            trust: also read a SavedModel of TensorFlow Hub or Kaggle, one of Google's encoders. Of
                this program only the variables are read, and none of it is run; what they do not
                tell is as Google published it: activation "gelu_tanh", layer_norm_epsilon 1e-12,
                dropout 0.1 (ALBERT: 0), ALBERT's number of layers. A bert_config.json or
                albert_config.json of Google's beside saved_model.pb is believed instead. One that
                `export.tf_hub` wrote tells everything and needs no trust.
            dtype: a Keras dtype policy; None for the global one.
            options: the task's own arguments, where the checkpoint does not say; and `plain`, see
                `BertEncoder.from_preset`. A folder of another class, or of other arguments, is
                always read plainly: the task over its encoder is a new one.

        Raises:
            ArtifactError: the folder cannot be read, its tensors are not the task's, its head has
                other labels than those that are given, or it is the head of another task.
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

    def save_to_preset(self, directory: str | Path) -> None:
        """Write a checkpoint folder that `from_preset` and Hugging Face's library open.

        See `BertEncoder.save_to_preset`.
        """
        from bert_keras.checkpoints import folders

        folders.write_checkpoint(self, directory)


def task_inputs(encoder: BertEncoder) -> dict[str, keras.KerasTensor]:
    """New symbolic inputs for a task over this encoder; the task adds its own."""
    return encoder_inputs(encoder.config)
