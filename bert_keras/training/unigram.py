"""The frequencies of tokens: what can be known without a look at the context."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

_CHUNK = 1 << 22  # ids that are counted at once: a corpus is larger than memory


def entropy(token_ids: np.ndarray, special_ids: Collection[int]) -> float:
    """The entropy in nats of the tokens' frequencies, special tokens left out.

    No guess that ignores the context has a lower loss on these tokens.

    Raises:
        ValueError: there is no token but special ones.
    """
    counts = _counts(token_ids, special_ids, int(token_ids.max(initial=0)) + 1)
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def cross_entropy(
    train_ids: np.ndarray, held_out_ids: np.ndarray, special_ids: Collection[int], vocab_size: int
) -> float:
    """The loss in nats of the training frequencies, add-one smoothed, on held-out tokens.

    Raises:
        ValueError: there is no token but special ones.
    """
    counts = _counts(held_out_ids, special_ids, vocab_size)
    seen = counts > 0
    losses = -log_shares(train_ids, special_ids, vocab_size)[seen]
    return float((counts[seen] * losses).sum() / counts.sum())


def log_shares(token_ids: np.ndarray, special_ids: Collection[int], vocab_size: int) -> np.ndarray:
    """The logarithms of the tokens' frequencies, add-one smoothed: float64 [vocab_size].

    Special tokens, which are never predicted, have -inf.

    Raises:
        ValueError: there is no token but special ones.
    """
    weights = _counts(token_ids, special_ids, vocab_size) + 1.0
    weights[list(special_ids)] = 0
    with np.errstate(divide="ignore"):
        return np.log(weights) - np.log(weights.sum())


def _counts(token_ids: np.ndarray, special_ids: Collection[int], size: int) -> np.ndarray:
    """Count each id below `size`: int64 [size]; 0 for special ones."""
    counts = np.zeros(size, np.int64)
    for start in range(0, len(token_ids), _CHUNK):
        counts += np.bincount(token_ids[start : start + _CHUNK], minlength=size)
    counts[[token for token in special_ids if token < size]] = 0
    if not counts.any():
        raise ValueError(f"No token but special ones. Received: {len(token_ids)} token ids")
    return counts
