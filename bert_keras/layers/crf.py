"""Conditional random field over the tags of a text (Lafferty et al., 2001)."""

from __future__ import annotations

import keras
from keras import ops

from bert_keras.kernels.mask_values import LOG_OF_ZERO
from bert_keras.layers.serialization import SerializableLayer


@keras.saving.register_keras_serializable(package="bert_keras")
class ConditionalRandomField(SerializableLayer):
    """Transition scores of neighbouring tags (Lafferty et al., 2001; Lample et al., 2016, §2.2).

    The states are the tags 0 to num_classes - 1 and one more, the boundary: the state before the
    first token and after the last. Transition scores start at zero, so a new field tags each token
    by its own scores.
    """

    def __init__(self, **kwargs):
        # The score of a text is a sum over its tokens, for which 16 bits are too few.
        super().__init__(**{"autocast": False, **kwargs})

    def build(self, x_shape):
        tags = x_shape[-1]
        # `autocast` of the layer does not hold for its variables, so each has it too.
        shapes = {"transition": (tags, tags), "start": (tags,), "end": (tags,)}
        self.transition, self.start, self.end = (
            self.add_weight(shape, "zeros", name=name, autocast=False)
            for name, shape in shapes.items()
        )
        self.built = True

    def call(self, x):
        """Add the transition scores to the scores of the tags.

        Args:
            x: scores of the tags, [batch, length, num_classes].

        Returns:
            Potentials, float32 [batch, length, num_classes + 1, num_classes + 1]. Entry
            [b, t, i, j] is the score of tag j for token t after state i. The last state is the
            boundary. So the last row has the scores of a text that starts with j, and the last
            column those of a text that ends with i. The last column is the same for every token.
        """
        transition, start, end = (
            ops.cast(weight, "float32") for weight in (self.transition, self.start, self.end)
        )
        from_tags = ops.concatenate([transition, end[:, None]], axis=1)
        from_boundary = ops.pad(start[None], [[0, 0], [0, 1]])
        pairs = ops.concatenate([from_tags, from_boundary], axis=0)
        x = ops.pad(ops.cast(x, "float32"), [[0, 0], [0, 0], [0, 1]])
        return ops.expand_dims(x, 2) + pairs

    def compute_output_spec(self, x):
        states = x.shape[-1] + 1
        return keras.KerasTensor((*x.shape[:-1], states, states), dtype="float32")


def log_likelihood(potentials, tags, counted):
    """Return the logarithm of the probability of a text's tags.

    The chain goes from one counted token to the next, and skips the others.

    Args:
        potentials: output of `ConditionalRandomField`.
        tags: int [batch, length]. Tags of tokens that do not count may be any number.
        counted: bool [batch, length], whether a token counts. If none does, the result is 0.

    Returns:
        float32 [batch].
    """
    potentials = ops.convert_to_tensor(potentials, "float32")
    counted = ops.convert_to_tensor(counted, "bool")
    return _score(potentials, tags, counted) - _log_partition(potentials, counted)


def _score(potentials, tags, counted):
    """Return the sum of the potentials along the path of these tags: [batch]."""
    batch, length, states, _ = ops.shape(potentials)
    places = ops.arange(length, dtype="int32")[None]
    # Counted tokens come first, in their order.
    order = ops.argsort(ops.where(counted, places, places + length), axis=1)
    order = ops.cast(order, "int32")
    number = ops.sum(ops.cast(counted, "int32"), axis=1, keepdims=True)
    is_one = places < number
    tags = ops.take_along_axis(ops.cast(tags, "int32"), order, axis=1)
    tags = ops.where(is_one, tags, 0)
    # The boundary, then the tags: at index t is the state before the t-th counted token.
    path = ops.pad(tags, [[0, 0], [1, 0]], constant_values=states - 1)
    cells = (order * states + path[:, :-1]) * states + tags
    along = ops.take_along_axis(
        ops.reshape(potentials, (batch, length * states * states)), cells, axis=1
    )
    last = ops.take_along_axis(path, number, axis=1)
    end = ops.take_along_axis(potentials[:, 0, :, -1], last, axis=1)
    return ops.sum(ops.where(is_one, along, 0.0), axis=1) + end[:, 0]


def _log_partition(potentials, counted):
    """Return the logarithm of the sum of exp(score) over all sequences of tags: [batch].

    Args:
        potentials: [batch, length, states, states]; see `ConditionalRandomField.call`.
        counted: bool [batch, length]; other tokens are skipped.
    """
    batch, length, states, _ = ops.shape(potentials)
    cell = _Forward(states, dtype="float32")
    forward = keras.layers.RNN(cell, return_state=True, dtype="float32")
    # Every path starts at the boundary, with probability one.
    log_zero_of_tags = ops.full((batch, states - 1), LOG_OF_ZERO, dtype="float32")
    log_one_of_boundary = ops.zeros((batch, 1), dtype="float32")
    _, log_sums = forward(
        ops.reshape(potentials, (batch, length, states * states)),
        mask=counted,
        initial_state=[ops.concatenate([log_zero_of_tags, log_one_of_boundary], axis=1)],
    )
    # The scores of the end are the same at every token, so those of the first are taken.
    return ops.logsumexp(log_sums + potentials[:, 0, :, -1], axis=1)


@keras.saving.register_keras_serializable(package="bert_keras")
class _Forward(SerializableLayer):
    """Cell of a recurrent layer that computes one step of the forward recursion.

    Keras's recurrent layers run on every backend with any length, also compiled by XLA. They keep
    the state at a masked step.
    """

    def __init__(self, states: int, **kwargs):
        super().__init__(**kwargs)
        self.states = self.state_size = self.output_size = states

    def build(self, x_shape):
        self.built = True

    def call(self, x, state):
        """Extend all paths, which are sequences of tags so far, by one token.

        Args:
            x: potentials of the token, [batch, states * states].
            state: a list of one tensor, [batch, states]: log of the sum of exp(score) over the
                paths that end in each state.

        Returns:
            The same tensor after the token, as output and as state.
        """
        scores = ops.reshape(x, (-1, self.states, self.states))  # [batch, from, to]
        log_sums = ops.logsumexp(state[0][:, :, None] + scores, axis=1)
        # The last state is the boundary, which no path enters between two tokens.
        log_sums = ops.pad(log_sums[:, :-1], [[0, 0], [0, 1]], constant_values=LOG_OF_ZERO)
        return log_sums, [log_sums]
