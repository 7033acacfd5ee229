"""Base of all models: inputs by name, checks of data, and unused variables that do not train."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import keras

from bert_keras import features, hooks, saved_model_loading
from bert_keras.kernels.query_blocks import LONG
from bert_keras.layers.sharing import Sharing
from bert_keras.models.input_data import DataChecks, InputKeys
from bert_keras.models.value_checks import ValueChecks

# PyTorch runs eagerly; the other backends compile what they predict.
_IS_EAGER = keras.backend.backend() == "torch"


def _in_own_order(fit: Callable[..., Any]) -> Any:
    """Decorate `fit` so that `shuffle` is False for a dataset of `data.dataset`.

    Such a dataset has its own order in each epoch. With Keras's default, shuffle=True, every `fit`
    on a `tf.data.Dataset` would warn that Keras does not shuffle it.
    """
    signature = inspect.signature(fit)

    @functools.wraps(fit)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Call `fit`, with `shuffle=False` for such a dataset if it is not passed."""
        bound = signature.bind(self, *args, **kwargs)
        if getattr(bound.arguments.get("x"), "has_own_order", False):
            bound.arguments.setdefault("shuffle", False)
            _check_first_epoch(bound.arguments)
        return fit(*bound.args, **bound.kwargs)

    return run


def _check_first_epoch(arguments: Mapping[str, Any]) -> None:
    """Warn where `fit` and its dataset begin with epochs of different numbers.

    The number of an epoch decides its order and its random masks. A resumed training that begins
    with the wrong one repeats those of an earlier epoch.

    Args:
        arguments: arguments of `fit` by name; `x` is a dataset of `data.dataset`.
    """
    passes, initial = arguments["x"].passes, arguments.get("initial_epoch", 0)
    if passes is None or arguments.get("steps_per_epoch") is not None:
        return  # an epoch of `fit` is not one pass over the examples
    if initial and passes.epoch not in (None, initial):
        warnings.warn(
            f"`fit` begins with epoch {initial}, the dataset with epoch {passes.epoch}, which is "
            f"read first. To go on with a training, pass dataset(examples, epoch={initial}).",
            stacklevel=3,
        )


def _checked(method: Callable[..., Any]) -> Any:
    """Return a method of `keras.Model` that checks its data first; see `DataChecks`.

    Args:
        method: `fit`, `evaluate`, `predict`, `train_on_batch` or `test_on_batch`. It is looked up
            again by its name in each call, because tools that log trainings replace it.
    """
    signature, name = inspect.signature(method), method.__name__

    @functools.wraps(method)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Check the data as `method` reads them, and call it."""
        method = getattr(keras.Model, name)
        if kwargs.get("_use_cached_eval_dataset") or self._input_keys is None:
            return method(self, *args, **kwargs)  # `fit` has checked what it evaluates on
        bound = signature.bind(self, *args, **kwargs)
        values = self._value_checks
        if "y" in signature.parameters:
            values = values.with_losses(self.loss)
        checks = DataChecks(self._input_keys.select, values)
        try:
            with _kept_state(self):
                checks.arguments(bound.arguments)
                named = dict(zip(signature.parameters, bound.args, strict=False))
                return method(named.pop("self"), **named, **bound.kwargs)
        except Exception:
            if checks.error is None:
                raise
        # TensorFlow replaces an error within a data pipeline by one without its message.
        raise checks.error

    return run


@contextmanager
def _kept_state(model: keras.Model) -> Iterator[None]:
    """Restore the values of a model's variables after an error in a method of Keras.

    On JAX, Keras empties the variables while such a method runs. After an error only `fit` fills
    them again, and only if its first step succeeded (Keras 3.15). Without this context the model
    would lose its weights.
    """
    if keras.backend.backend() != "jax":
        yield
        return
    optimizer = getattr(model, "optimizer", None)  # none before `compile`
    variables = [*model.variables, *(optimizer.variables if optimizer is not None else ())]
    values = [variable.value for variable in variables]
    try:
        yield
    except BaseException:
        model.jax_state_sync()
        for variable, value in zip(variables, values, strict=True):
            if getattr(variable, "_value", value) is None and not value.is_deleted():
                variable.assign(value)
        raise


class DirectModel(Sharing, keras.Model):
    """A functional model that takes its inputs by name, and checks ids, lengths and labels.

    Inputs may have the names of Hugging Face or TensorFlow Hub; see `InputKeys.select`. `fit`,
    `evaluate`, `predict` and the methods for one batch also check every number on the host; see
    `DataChecks`. Calling the model checks names and ranks alone.

    Only the call of the model itself takes Keras's full path, with casts and masks. Its layers skip
    that path where they do not need it, which is quicker; see `layers.core.FastCall`.

    Attributes:
        takes_texts_apart: whether an input may be a tuple of arrays, one for each text.
    """

    takes_texts_apart: bool = False

    fit = _in_own_order(_checked(keras.Model.fit))
    evaluate = _checked(keras.Model.evaluate)
    predict = _checked(keras.Model.predict)
    train_on_batch = _checked(keras.Model.train_on_batch)
    test_on_batch = _checked(keras.Model.test_on_batch)

    def train_step(self, *args: Any) -> Any:
        """Keras: train on one batch.

        On PyTorch, Keras frees the gradients of the step before only after the forward pass. Here
        they are freed before it, so that they are not in memory beside its activations.
        """
        if keras.backend.backend() == "torch":
            self.zero_grad()
        return super().train_step(*args)

    def predict_on_batch(self, x: Any) -> Any:
        """Keras: return the outputs for one batch of inputs, as NumPy arrays by output name."""
        if self._input_keys is not None:
            x = self._input_keys.select(x)
            self._value_checks.check(x)
        with self._of_known_length(x):
            return super().predict_on_batch(x)

    @contextmanager
    def _of_known_length(self, x: Any) -> Iterator[None]:
        """Compile a function for each length of long rows, on TensorFlow.

        Keras compiles one function for rows of any length. Attention in bands and in blocks needs
        a known length.
        """
        tokens = x.get(features.TOKEN_IDS) if isinstance(x, Mapping) else None
        length = 0 if tokens is None else tokens.shape[-1]
        if length <= LONG or keras.backend.backend() != "tensorflow" or self.run_eagerly:
            yield
            return
        self.make_predict_function()
        usual, known = self.predict_function, self._predict_functions
        if known.get("usual") is not usual:  # the model was compiled again
            known.clear()
            known["usual"] = usual
        if length not in known:
            self.make_predict_function(force=True)
            known[length] = self.predict_function
        self.predict_function = known[length]
        try:
            yield
        finally:
            self.predict_function = usual

    @functools.cached_property
    def _predict_functions(self) -> dict[Any, Any]:
        """Functions of `predict_on_batch` by the length of long rows; "usual" is for all others."""
        return {}

    def export(
        self,
        filepath: Any,
        format: str = "tf_saved_model",  # noqa: A002
        verbose: bool | None = None,
        input_signature: Any = None,
        **kwargs: Any,
    ) -> None:
        """Keras: write the model as a file of another runtime; see `export.keras_export`.

        The file takes ids. `bert_keras.export.saved_model` and `runtime_model` write it with the
        tokenizer.
        """
        arguments = {"input_signature": input_signature, **kwargs}
        options = {name: value for name, value in arguments.items() if value is not None}
        if not hooks.is_exported(self, filepath, format, options, verbose=verbose):
            super().export(filepath, format, verbose, **options)
            saved_model_loading.remember(filepath)

    def checked(self, x: Any) -> Any:
        """Return data for a model of your own around this one, with the checks of this one's `fit`.

        `fit` of your own model is Keras's and checks nothing. Use
        `model.fit(encoder.checked(dataset))`. Batches keep their keys. Ids and lengths under the
        names of this model's inputs, or their aliases, are checked; labels are not. On JAX, Keras
        3.15 loses the weights of your own model when a step fails, whatever the reason. Arrays are
        therefore checked before any step.

        Args:
            x: a dictionary of arrays, a `tf.data.Dataset`, `keras.utils.PyDataset`, generator,
                PyTorch `DataLoader` or dataset of Grain.

        Raises:
            ValueError: a number is out of its range; of a source of batches, when it is read.
        """
        keys = self._input_keys
        if keys is None:
            return x
        return DataChecks(keys.find, self._value_checks, keeps_keys=True).data(x)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Keras: call the model on inputs by name, tensors or symbolic tensors."""
        keys = self._input_keys
        if keys is not None and args:
            args = (keys.select(args[0]), *args[1:])
        elif keys is not None and "inputs" in kwargs:
            kwargs["inputs"] = keys.select(kwargs["inputs"])
        return super().__call__(*args, **kwargs)

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None, **kwargs: Any):
        """Keras: compute the outputs by name for a dictionary of input tensors."""
        if self._input_keys is not None:
            inputs = self._input_keys.select(inputs)  # JAX's trainer does not use `__call__`
        if _IS_EAGER and training is None:
            training = False  # an explicit mode lets `FastCall` skip Keras's search for it
        return super().call(inputs, training, mask, **kwargs)

    @functools.cached_property
    def _input_keys(self) -> InputKeys | None:
        """The names of the inputs; None where the inputs are not a dictionary."""
        inputs: Any = self.input
        if not isinstance(inputs, Mapping):
            return None
        ranks = {name: len(tensor.shape) for name, tensor in inputs.items()}
        return InputKeys(ranks, self.name, apart=self.takes_texts_apart)

    @functools.cached_property
    def _value_checks(self) -> ValueChecks:
        """The ranges of the ids, lengths and labels that this model can read."""
        return ValueChecks(self)


# === Variables that do not train ===


class WithoutUnused(DirectModel):
    """A model that trains all its trainable variables but the `unused_variables`.

    An unused variable has no gradient. Keras would warn of each. On JAX its gradient is zero, and
    weight decay would shrink it. `trainable` of the variable itself does not change, because
    another model may share and train it.
    """

    def make_train_function(self, force: bool = False):
        """Keras: make the compiled training step."""
        _build_optimizer(self)
        return super().make_train_function(force)

    @property
    def unused_variables(self) -> Sequence[Any]:
        """Variables that no output depends on."""
        return ()

    @property
    def trainable_variables(self) -> list[Any]:
        """Keras: the trainable variables, without the unused ones."""
        return _others(super().trainable_variables, self.unused_variables)

    @property
    def non_trainable_variables(self) -> list[Any]:
        """Keras: all other variables."""
        return _others(self.variables, self.trainable_variables)

    @property
    def trainable_weights(self) -> list[Any]:
        """Keras: the trainable weights, without the unused ones."""
        return _others(super().trainable_weights, self.unused_variables)

    @property
    def non_trainable_weights(self) -> list[Any]:
        """Keras: all other weights."""
        return _others(self.weights, self.trainable_weights)


def _build_optimizer(model: keras.Model) -> None:
    """Make the variables of a compiled model's optimizer before the first step, on TensorFlow.

    TensorFlow traces a step twice if it makes variables. The second trace takes half of the time
    before the first batch.
    """
    optimizer = model.optimizer
    if keras.backend.backend() == "tensorflow" and optimizer is not None and not optimizer.built:
        with model.distribute_strategy.scope():
            optimizer.build(model.trainable_variables)


def _others(variables: Sequence[Any], left_out: Sequence[Any]) -> list[Any]:
    """Return the variables that are not among `left_out`, in order."""
    left_out_ids = {id(variable) for variable in left_out}  # `==` of variables compares values
    return [variable for variable in variables if id(variable) not in left_out_ids]
