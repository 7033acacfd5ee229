"""A callable SavedModel as a Keras layer, to reuse encoders of TensorFlow Hub."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras

from bert_keras import saved_model_loading
from bert_keras.errors import UsageError

_NO_MATCH = "Could not find matching concrete function"  # TensorFlow: inputs of another signature


@keras.saving.register_keras_serializable(package="bert_keras")
class SavedModelLayer(keras.layers.Layer):
    """An encoder with TensorFlow Hub's text API, or any SavedModel that can be called.

    Inputs and outputs are those of the SavedModel. An encoder takes a dictionary of
    `input_word_ids`, `input_mask` and `input_type_ids`, int32 [batch, length]. It returns a
    dictionary of `pooled_output` [batch, hidden_size], `sequence_output`
    [batch, length, hidden_size] and more. A preprocessor takes strings [batch], in a functional
    model `keras.Input(shape=(), dtype="string")`. TensorFlow backend only. On JAX and PyTorch
    `BertEncoder.from_preset(path, trust=True)` reads the weights of such an encoder.

    A SavedModel is a program: load only those that you would run. One that another process wrote
    needs `trust=True`. The message of the refusal lists its operations that write files.
    `keras.models.load_model` needs `safe_mode=False` for a model with such a layer, and the folder
    must still be there.

    Args:
        path: the folder of the SavedModel.
        trust: True to load a SavedModel that another process wrote.
        trainable: whether its weights are trained. If not, it has no dropout in training either.
        output: name of the only output to return; None for all.
        name: name of the layer.

    Raises:
        RuntimeError: the backend is not TensorFlow.
        UsageError: another process wrote the SavedModel, and `trust` is False.
        ValueError: the folder has no SavedModel, or one that cannot be called.
        ImportError: the SavedModel has operations of tensorflow-text, which is not installed.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        trust: bool = False,
        trainable: bool = False,
        output: str | None = None,
        **kwargs: Any,
    ):
        if keras.backend.backend() != "tensorflow":
            raise RuntimeError(
                f"A SavedModel runs on TensorFlow alone, not on {keras.backend.backend()}. Its "
                f"weights can be read: BertEncoder.from_preset({str(path)!r}, trust=True)."
            )
        super().__init__(**kwargs)
        self.folder, self.output_name = str(path), output
        if not Path(path, "saved_model.pb").is_file():
            raise ValueError(
                f"{path}: not a SavedModel: there is no saved_model.pb in it. Name the folder that "
                "has this file."
            )
        self._program: Any = saved_model_loading.load(self.folder, trust=trust)
        if not callable(self._program):
            raise ValueError(
                f"{path}: a SavedModel with signatures alone, which cannot be called as a layer. "
                "Export an encoder with bert_keras.export.tf_hub, or use keras.layers.TFSMLayer."
            )
        parameters = inspect.signature(self._program.__call__).parameters
        self._takes_training = "training" in parameters  # a preprocessor does not
        variables = list(getattr(self._program, "variables", ()))
        trained = {v.ref() for v in getattr(self._program, "trainable_variables", ())}
        self.program_variables = [
            keras.Variable(
                variable,
                shape=variable.shape,
                dtype=variable.dtype.name,
                trainable=variable.ref() in trained,
                name=variable.name.partition(":")[0].replace("/", "_"),
            )
            for variable in variables
        ]
        self.trainable = trainable  # after the variables, because it sets theirs too
        self.built = True

    @property
    def program(self) -> Any:
        """The loaded SavedModel, with its other functions, such as `tokenize` of a preprocessor."""
        return self._program

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Keras: call the layer; a list of strings is one tensor."""
        if isinstance(inputs, list | tuple) and inputs and isinstance(inputs[0], str):
            import tensorflow as tf

            inputs = tf.constant(inputs)
        return super().__call__(inputs, *args, **kwargs)

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Return all outputs or the chosen one, and add the SavedModel's regularisation losses."""
        mode = {"training": bool(training) and self.trainable} if self._takes_training else {}
        try:
            outputs = self._program(inputs, **mode)
        except (ValueError, TypeError) as error:
            if _NO_MATCH not in str(error):
                raise
            raise ValueError(
                f"{self.folder}: the SavedModel takes {' or '.join(self._signatures())}. "
                f"Received: {_described(inputs)}"
            ) from error
        for regularization in getattr(self._program, "regularization_losses", ()):
            self.add_loss(regularization())
        return outputs if self.output_name is None else outputs[self.output_name]

    def _signatures(self) -> list[str]:
        """Return what the program takes, once for each of its signatures."""
        functions = self._program.__call__.concrete_functions
        taken = [function.structured_input_signature[0][0] for function in functions]
        return list(dict.fromkeys(map(_described, taken)))

    def get_config(self) -> dict[str, Any]:
        """Return the config for `from_config`: the name of the folder, not its contents."""
        more = {"path": self.folder, "output": self.output_name}
        return super().get_config() | more

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> SavedModelLayer:
        """Keras: load the folder again.

        Outside `load_model`, as in `keras.models.clone_model`, the SavedModel must be one that this
        process has written, or loaded with trust.

        Raises:
            UsageError: `safe_mode` is on, or the SavedModel is not trusted.
        """
        from keras.src.saving import serialization_lib

        is_safe, folder = serialization_lib.in_safe_mode(), config["path"]
        if is_safe:
            operations = ""
            if Path(folder, saved_model_loading.PROGRAM).is_file():
                operations = f" {saved_model_loading.described_operations(folder)}"
            raise UsageError(
                f"{folder}: a SavedModel is a program, which loading this model would run."
                f"{operations} If you trust it, pass safe_mode=False."
            )
        trust = is_safe is False or saved_model_loading.was_loaded(folder)
        return cls(**config, trust=trust)


def _described(inputs: Any) -> str:
    """Return the names, dtypes and shapes of tensors for a message; None stands for any size."""
    if isinstance(inputs, Mapping):
        return "{" + ", ".join(f"{name}: {_described(inputs[name])}" for name in inputs) + "}"
    shape, dtype = getattr(inputs, "shape", None), getattr(inputs, "dtype", None)
    if shape is None or dtype is None:
        return f"{inputs!r:.100}"
    return f"{getattr(dtype, 'name', dtype)} {list(shape)}"
