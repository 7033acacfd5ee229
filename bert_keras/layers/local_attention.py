"""Attention within a window: its mask, and a layout in bands whose cost is linear in the length.

In the layout, the queries of a row are cut into bands of as many tokens as the window has to one
side, and each band has the keys of itself and of its two neighbours (Beltagy et al., 2020, §3.1).
All bands of all rows become one batch, which every kernel of attention takes.
"""

from __future__ import annotations

from typing import Any

from keras import ops

_LEAST = 32  # tokens in a band; with fewer, the kernels of attention wait for memory


def has_bands(length: int | None, window: int) -> bool:
    """Return whether rows of this length are so long that bands save time.

    The length of a program that PyTorch exports is no int, but a symbol of any length. Comparing it
    would limit the program to short rows, or to long ones.
    """
    return isinstance(length, int) and length > 3 * band_size(window)


def band_size(window: int) -> int:
    """Return the number of queries in a band, at least the `window` to one side."""
    return max(window, _LEAST)


def compared_keys(length: int, window: int) -> int:
    """Return the number of keys that a query of a local layer is compared with, in bands or not."""
    return 3 * band_size(window) if has_bands(length, window) else length


def describe_bands(window: int) -> str:
    """Return a phrase on the bands of local layers, for a description of the kernels in use."""
    size = band_size(window)
    return f"local layers in bands of {size:,} tokens, in rows of more than {3 * size:,} tokens"


def query_bands(x_BTNK: Any, window: int) -> Any:
    """Return the tokens of each row in bands: [batch * bands, size, N, K].

    Args:
        x_BTNK: vectors of heads; the length is known.
        window: number of tokens to each side that a token attends to.
    """
    size, (batch, length, heads, width) = band_size(window), ops.shape(x_BTNK)
    count = -(-length // size)
    if missing := count * size - length:
        x_BTNK = ops.pad(x_BTNK, ((0, 0), (0, missing), (0, 0), (0, 0)))
    return ops.reshape(x_BTNK, (batch * count, size, heads, width))


def key_bands(x_BSNK: Any, window: int) -> Any:
    """Return the tokens of each band and of its neighbours: [batch * bands, 3 * size, N, K].

    Args:
        x_BSNK: vectors of heads; the length is known.
        window: number of tokens to each side that a token attends to.
    """
    size, (batch, length, heads, width) = band_size(window), ops.shape(x_BSNK)
    count = -(-length // size)
    missing = count * size - length
    x = ops.pad(x_BSNK, ((0, 0), (size, size + missing), (0, 0), (0, 0)))
    x = ops.reshape(x, (batch, count + 2, size, heads, width))
    # The gradient of an index is slow on TensorFlow; see decision 181.
    shape = batch, count, size, heads, width
    parts = [ops.slice(x, (0, first, 0, 0, 0), shape) for first in range(3)]
    return ops.reshape(ops.concatenate(parts, axis=2), (batch * count, 3 * size, heads, width))


def band_mask(ids: Any, window: int, *, is_packed: bool) -> Any:
    """Return where queries of bands attend to keys: bool [batch * bands, size, 3 * size].

    Args:
        ids: int [batch, length]: 1 for real tokens and 0 for padding; of packed rows the number of
            each token's example. The length is known.
        window: number of tokens to each side that a token attends to.
        is_packed: whether tokens attend to those with the same number alone.
    """
    size = band_size(window)
    # One more than the ids, so that the padding around a row has a number of its own.
    ids_BL11 = ops.cast(ids, "int32")[:, :, None, None] + 1
    keys = key_bands(ids_BL11, window)[:, None, :, 0, 0]
    away = ops.arange(size)[:, None] + size - ops.arange(3 * size)[None, :]
    is_near = (ops.absolute(away) <= window)[None]
    if is_packed:
        queries = query_bands(ids_BL11, window)[:, :, None, 0, 0]
        return ops.logical_and(is_near, queries == keys)
    return ops.logical_and(is_near, keys > 1)


def out_of_bands(x: Any, length: int) -> Any:
    """Return tokens in rows again, [batch, length, N, K]; the inverse of `query_bands`."""
    count = -(-length // x.shape[1])
    rows = ops.reshape(x, (-1, count * x.shape[1], *x.shape[2:]))
    if rows.shape[1] == length:
        return rows
    return ops.slice(rows, (0, 0, 0, 0), (ops.shape(rows)[0], length, *x.shape[2:]))


def window_mask(ids: Any, window: int, *, is_packed: bool, query_places: Any = None) -> Any:
    """Return where tokens attend to keys: bool [batch, query, key].

    Args:
        ids: see `band_mask`.
        window: number of tokens to each side that a token attends to.
        is_packed: see `band_mask`.
        query_places: int32 [batch, queries], places of the queries in their rows; None for all.
    """
    keys = ops.arange(ops.shape(ids)[1], dtype="int32")
    places = keys[None] if query_places is None else ops.cast(query_places, "int32")
    # `expand_dims`, because LiteRT has no index with a new axis between two others.
    is_near = ops.absolute(ops.expand_dims(places, 2) - keys) <= window
    ids = ops.cast(ids, "int32")
    of_keys = ops.expand_dims(ids, 1)
    if not is_packed:
        return ops.logical_and(is_near, of_keys > 0)
    of_queries = ids if query_places is None else ops.take_along_axis(ids, places, axis=1)
    return ops.logical_and(is_near, ops.expand_dims(of_queries, 2) == of_keys)
