"""The best tags of a conditional random field, and their chances, in a TensorFlow graph.

As `viterbi` has them in NumPy, of which this is the other half; all tokens here count.
"""

from __future__ import annotations

import tensorflow as tf


def best_tags(potentials: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The tags with the highest score together, and the probability of each of them.

    Args:
        potentials: float [rows, length, states, states], those of the tokens that count.
        lengths: int [rows], how many there are; the rest is padding.

    Returns:
        int32 and float32 [rows, length]; what stands at padding says nothing.
    """
    potentials = tf.cast(potentials, tf.float64)
    outside = tf.shape(potentials)[-1] - 1
    is_outside = tf.range(outside + 1) == outside
    never = tf.constant(float("-inf"), tf.float64)
    start = tf.where(is_outside, tf.zeros_like(potentials[:, 0, 0]), never)
    ending = potentials[:, 0, :, -1]
    steps = tf.transpose(potentials, [1, 0, 2, 3])
    counted = tf.transpose(tf.sequence_mask(lengths, tf.shape(potentials)[1]))[:, :, tf.newaxis]

    def inside(scores: tf.Tensor) -> tf.Tensor:
        return tf.where(is_outside, never, scores)

    # === Forwards: the best and all ways to each state ===
    def reach(last: tuple[tf.Tensor, ...], step: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, ...]:
        best, total, _ = last
        scores, is_one = step
        ways = best[:, :, tf.newaxis] + scores
        came_from = tf.where(is_one, tf.argmax(ways, axis=1, output_type=tf.int32), stay)
        best = tf.where(is_one, inside(tf.reduce_max(ways, axis=1)), best)
        all_ways = inside(tf.reduce_logsumexp(total[:, :, tf.newaxis] + scores, axis=1))
        return best, tf.where(is_one, all_ways, total), came_from

    stay = tf.broadcast_to(tf.range(outside + 1), tf.shape(start))
    best, total, came_from = tf.scan(reach, (steps, counted), (start, start, stay))

    # === Backwards ===
    final = tf.argmax(best[-1] + ending, axis=1, output_type=tf.int32)
    whole = tf.reduce_logsumexp(total[-1] + ending, axis=1, keepdims=True)

    def back(last: tuple[tf.Tensor, ...], step: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, ...]:
        state, _, beta, _ = last
        scores, is_one, origins, reached = step
        chance = tf.exp(reached + beta - whole)
        before = tf.gather(origins, state, batch_dims=1)
        ahead = tf.reduce_logsumexp(scores + inside(beta)[:, tf.newaxis, :], axis=2)
        share = tf.gather(chance, state, batch_dims=1)
        return before, state, tf.where(is_one, ahead, beta), share

    nothing = tf.zeros_like(whole[:, 0])
    _, tags, _, shares = tf.scan(
        back, (steps, counted, came_from, total), (final, final, ending, nothing), reverse=True
    )
    return tf.transpose(tags), tf.cast(tf.transpose(shares), tf.float32)
