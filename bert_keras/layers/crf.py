"""A conditional random field: what each tag is worth after each other one."""

from __future__ import annotations

import keras
from keras import ops

from bert_keras.layers.serialization import SerializableLayer

_NEVER = -1e9  # the logarithm of a probability of zero, whose gradient is finite


@keras.saving.register_keras_serializable(package="bert_keras")
class ConditionalRandomField(SerializableLayer):
    """Scores of pairs of neighbouring tags (Lafferty et al., 2001; Lample et al., 2016, §2.2).

    There are the tags 0 to num_classes - 1, and one state more, the last one, which stands before
    the first token and behind the last. Scores of transitions start at zero: a new field tags
    every token on its own.
    """

    def __init__(self, **kwargs):
        # The score of a text is a sum over all of its tokens, for which 16 bits are too few.
        super().__init__(**{"autocast": False, **kwargs})

    def build(self, x_shape):
        tags = x_shape[-1]
        # A layer alone does not keep its variables from being cast: each of them says so.
        shapes = {"transition": (tags, tags), "start": (tags,), "end": (tags,)}
        self.transition, self.start, self.end = (
            self.add_weight(shape, "zeros", name=name, autocast=False)
            for name, shape in shapes.items()
        )
        self.built = True

    def call(self, x):
        """Adds the scores of the tags, each on its own, to those of the transitions.

        Args:
            x: scores of the tags, [batch, length, num_classes].

        Returns:
            Potentials, float32 [batch, length, num_classes + 1, num_classes + 1]: at [b, t, i, j]
            the score of tag j for token t, if i is the state before it. The last row holds the
            scores of starting with j. The last column holds those of ending with i, and they are
            the same for every token.
        """
        transition, start, end = (
            ops.cast(weight, "float32") for weight in (self.transition, self.start, self.end)
        )
        from_tags = ops.concatenate([transition, end[:, None]], axis=1)
        from_outside = ops.pad(start[None], [[0, 0], [0, 1]])
        pairs = ops.concatenate([from_tags, from_outside], axis=0)
        x = ops.pad(ops.cast(x, "float32"), [[0, 0], [0, 0], [0, 1]])
        return ops.expand_dims(x, 2) + pairs

    def compute_output_spec(self, x):
        states = x.shape[-1] + 1
        return keras.KerasTensor((*x.shape[:-1], states, states), dtype="float32")


def log_likelihood(potentials, tags, counted):
    """The logarithm of the probability of a text's tags: float32 [batch].

    The chain goes from one counted token to the next; the others are stepped over.

    Args:
        potentials: of `ConditionalRandomField`.
        tags: int [batch, length]; those of the others may be anything.
        counted: bool [batch, length]: which tokens count. Of none the logarithm is 0.
    """
    potentials = ops.convert_to_tensor(potentials, "float32")
    counted = ops.convert_to_tensor(counted, "bool")
    return _score(potentials, tags, counted) - _log_partition(potentials, counted)


def _score(potentials, tags, counted):
    """The sum of the potentials along the path of these tags: [batch]."""
    batch, length, states, _ = ops.shape(potentials)
    places = ops.arange(length, dtype="int32")[None]
    # The counted tokens come first, in the order in which they stand.
    order = ops.argsort(ops.where(counted, places, places + length), axis=1)
    order = ops.cast(order, "int32")
    number = ops.sum(ops.cast(counted, "int32"), axis=1, keepdims=True)
    is_one = places < number
    tags = ops.take_along_axis(ops.cast(tags, "int32"), order, axis=1)
    tags = ops.where(is_one, tags, 0)
    # The outside, then the tags: at t the state before the t-th counted token.
    path = ops.pad(tags, [[0, 0], [1, 0]], constant_values=states - 1)
    cells = (order * states + path[:, :-1]) * states + tags
    along = ops.take_along_axis(
        ops.reshape(potentials, (batch, length * states * states)), cells, axis=1
    )
    last = ops.take_along_axis(path, number, axis=1)
    end = ops.take_along_axis(potentials[:, 0, :, -1], last, axis=1)
    return ops.sum(ops.where(is_one, along, 0.0), axis=1) + end[:, 0]


def _log_partition(potentials, counted):
    """The logarithm of the sum over all paths of the exponential of their scores: [batch]."""
    batch, length, states, _ = ops.shape(potentials)
    cell = _Forward(states, dtype="float32")
    forward = keras.layers.RNN(cell, return_state=True, dtype="float32")
    nowhere = ops.full((batch, states - 1), _NEVER, dtype="float32")
    outside = ops.zeros((batch, 1), dtype="float32")
    _, alpha = forward(
        ops.reshape(potentials, (batch, length, states * states)),
        mask=counted,
        initial_state=[ops.concatenate([nowhere, outside], axis=1)],
    )
    return ops.logsumexp(alpha + potentials[:, 0, :, -1], axis=1)


@keras.saving.register_keras_serializable(package="bert_keras")
class _Forward(SerializableLayer):
    """One step of the forward recursion, as the cell of a recurrent layer.

    Keras's recurrent layers run on every backend with any length, also where XLA compiles them,
    and keep the state of a step that is masked.
    """

    def __init__(self, states: int, **kwargs):
        super().__init__(**kwargs)
        self.states = self.state_size = self.output_size = states

    def build(self, x_shape):
        self.built = True

    def call(self, x, state):
        """Potentials [batch, states * states], and what all paths so far sum up to."""
        pairs = ops.reshape(x, (-1, self.states, self.states))
        alpha = ops.logsumexp(state[0][:, :, None] + pairs, axis=1)
        # No path leads back to the outside.
        alpha = ops.pad(alpha[:, :-1], [[0, 0], [0, 1]], constant_values=_NEVER)
        return alpha, [alpha]
