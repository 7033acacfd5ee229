"""What a conditional random field makes of a text, in NumPy: its best tags, and their chances.

For the potentials of `TokenClassifier(crf=True)`: [batch, length, states, states], where the last
state is the outside, before the first token and behind the last. Only counted tokens are tagged;
the chain steps over the others.
"""

from __future__ import annotations

import numpy as np

_NOWHERE = -1  # the tag of a token that does not count


def decode(potentials: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """The tags with the highest score together (Viterbi, 1967).

    Args:
        potentials: float [batch, length, states, states].
        counted: [batch, length], not 0 for the tokens to tag.

    Returns:
        int32 [batch, length]; -1 where a token does not count.
    """
    potentials, counted, best, outside = _started(potentials, counted)
    rows = np.arange(len(potentials))
    stay = np.arange(outside + 1)
    came_from = np.zeros(potentials.shape[:3], np.intp)
    for place, is_one in enumerate(counted.T):
        scores = best[:, :, None] + potentials[:, place]
        came_from[:, place] = np.where(is_one[:, None], scores.argmax(axis=1), stay)
        best = np.where(is_one[:, None], _inside(scores.max(axis=1)), best)
    tags = np.full(counted.shape, _NOWHERE, np.int32)
    state = (best + potentials[:, 0, :, outside]).argmax(axis=1)
    for place in reversed(range(counted.shape[1])):
        tags[:, place] = np.where(counted[:, place], state, _NOWHERE)
        state = came_from[rows, place, state]
    return tags


def marginals(potentials: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """The probability of each tag of each token, summed over all tags of the others.

    Args:
        potentials: float [batch, length, states, states].
        counted: [batch, length], not 0 for the tokens to tag.

    Returns:
        float32 [batch, length, states - 1]; zeros where a token does not count.
    """
    potentials, counted, alpha, outside = _started(potentials, counted)
    forward = np.zeros(potentials.shape[:3])
    for place, is_one in enumerate(counted.T):
        reached = _inside(_log_sum(alpha[:, :, None] + potentials[:, place], axis=1))
        alpha = forward[:, place] = np.where(is_one[:, None], reached, alpha)
    beta = potentials[:, 0, :, outside]
    total = _log_sum(alpha + beta, axis=1)
    found = np.zeros(potentials.shape[:3], np.float32)
    for place in reversed(range(counted.shape[1])):
        is_one = counted[:, place, None]
        found[:, place] = np.where(is_one, np.exp(forward[:, place] + beta - total[:, None]), 0.0)
        ahead = potentials[:, place] + _inside(beta.copy())[:, None, :]
        beta = np.where(is_one, _log_sum(ahead, axis=2), beta)
    return found[:, :, :outside]


def _started(
    potentials: np.ndarray, counted: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Both as they are worked with, the scores of the states before the text, and the outside."""
    potentials = np.asarray(potentials, np.float64)
    outside = potentials.shape[-1] - 1
    if potentials.ndim != 4 or potentials.shape[:2] != np.shape(counted):
        raise ValueError(
            "Expected potentials [batch, length, states, states] and one value for each token. "
            f"Received: shapes {potentials.shape} and {np.shape(counted)}"
        )
    scores = np.full((len(potentials), outside + 1), -np.inf)
    scores[:, outside] = 0.0
    return potentials, np.asarray(counted) != 0, scores, outside


def _inside(scores: np.ndarray) -> np.ndarray:
    """Scores [batch, states], where no path is at the outside."""
    scores[:, -1] = -np.inf
    return scores


def _log_sum(scores: np.ndarray, axis: int) -> np.ndarray:
    """The logarithm of the sum of exponentials; some of them may be zero, but not all."""
    highest = scores.max(axis=axis, keepdims=True)
    highest = np.where(np.isfinite(highest), highest, 0.0)
    with np.errstate(divide="ignore"):
        total = np.log(np.exp(scores - highest).sum(axis=axis, keepdims=True))
    return np.squeeze(highest + total, axis=axis)
