"""Models with another number of rows in the token table, for a vocabulary that has grown."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Literal

import keras
import numpy as np

from bert_keras import features
from bert_keras.config import BertConfig
from bert_keras.layers import state, to_be_filled
from bert_keras.layers.state import assign_copy

NEW_ROWS = ("mean", "normal")
# The second one is the output matrix of an MLM head that has one of its own.
_TABLES = ("embeddings/token/embeddings", f"{features.MLM}/output/embeddings")
_BIAS = f"{features.MLM}/bias"

NewRows = Literal["mean", "normal"]


class ResizesVocabulary:
    """Mixin of encoders and tasks: the same model for a vocabulary of another size."""

    def resize_vocabulary(
        self, vocab_size: int, *, new_rows: NewRows = "mean", seed: int | None = None
    ) -> Any:
        """Return a NEW model whose token table has `vocab_size` rows. Assign the result.

        All other weights are copied, and so are frozen parts, adapters, gradient checkpointing, the
        tokenizer and the settings of predictions. The new model is not compiled, and shares no
        weights with this one. After `tokenizer = tokenizer.add_tokens([...])`:

            task = task.resize_vocabulary(tokenizer.vocab_size)
            task.tokenizer = tokenizer

        A table may have more rows than the tokenizer has entries, such as a multiple of 64.

        Args:
            vocab_size: number of rows. The first rows are kept; fewer rows than now drop the last.
            new_rows: "mean": each new row is the mean of all rows, and each new entry of the MLM
                bias the mean of the bias, so that a new token is predicted as often as an average
                one. "normal": new rows are drawn as those of a new model (truncated normal of
                `config.initializer_range`), and new entries of the bias are 0.
            seed: seed of "normal"; None for another draw in each call.

        Raises:
            ValueError: the tokenizer has more entries, an argument is out of range, or the table is
                quantised.
        """
        model: Any = self
        encoder: Any = getattr(model, "encoder", model)
        config: BertConfig = encoder.config
        _check([encoder.embeddings.token, *_own_tables(model)], vocab_size, new_rows)
        tokenizer = getattr(model, "tokenizer", None)
        config = config.replace(vocab_size=int(vocab_size))
        if tokenizer is not None and vocab_size < tokenizer.vocab_size:
            raise ValueError(
                f"`vocab_size` must be at least {tokenizer.vocab_size}, the number of entries of "
                f"the model's tokenizer. Received: vocab_size={vocab_size}"
            )
        changes = state.get_state(model)
        with to_be_filled():
            resized: Any = type(encoder)(
                config, name=encoder.name, dtype=encoder.dtype_policy, **encoder.options
            )
            if model is not encoder:
                resized = type(model)(resized, name=model.name, **model.options)
            state.set_state(resized, changes)
        old = {weight.path: weight for weight in model.weights}
        for weight in resized.weights:
            values = old[weight.path]
            if weight.path in _TABLES:
                values = _rows(values, config, new_rows, seed)
            elif weight.path == _BIAS:
                values = _bias(values, config, new_rows)
            assign_copy(weight, values)
        if model is not encoder:
            resized.take_attachments(model)
        return resized


def _own_tables(model: Any) -> list[Any]:
    """Return the output matrix of an MLM head, if it is not the token table."""
    table = getattr(getattr(model, features.MLM, None), "output_table", None)
    return [] if table is None else [table]


def _check(tables: list[Any], vocab_size: int, new_rows: str) -> None:
    """Raise `ValueError` where a model with these tables cannot get a vocabulary of this size."""
    if not isinstance(vocab_size, Integral) or isinstance(vocab_size, bool) or vocab_size < 1:
        raise ValueError(
            "`vocab_size` must be a whole number of at least 1, such as tokenizer.vocab_size. "
            f"Received: vocab_size={vocab_size!r:.100}"
        )
    if new_rows not in NEW_ROWS:
        raise ValueError(
            f"`new_rows` must be one of {', '.join(NEW_ROWS)}. Received: new_rows={new_rows!r:.100}"
        )
    if mode := next(filter(None, (table.quantization_mode for table in tables)), None):
        raise ValueError(
            "A quantised table cannot get new rows. Resize the vocabulary before `quantize`, or "
            "open the folder with plain=True, whose weights are floats. "
            f"Received: a table of {mode}"
        )


def _rows(table: Any, config: BertConfig, new_rows: str, seed: int | None) -> np.ndarray:
    """Return the rows of a resized token table, float32 [vocab_size, width].

    Args:
        table: the present table.
        config: the new config.
        new_rows: see `ResizesVocabulary.resize_vocabulary`.
        seed: see `ResizesVocabulary.resize_vocabulary`.
    """
    rows = np.asarray(keras.ops.convert_to_numpy(table), np.float32)
    size, width = config.vocab_size, rows.shape[1]
    more = max(0, size - len(rows))
    if new_rows == "mean":
        new = np.broadcast_to(rows.mean(axis=0, dtype=np.float64), (more, width))
    else:
        draw = keras.initializers.TruncatedNormal(stddev=config.initializer_range, seed=seed)
        new = keras.ops.convert_to_numpy(draw((more, width)))
    return np.concatenate([rows[:size], new]).astype(np.float32)


def _bias(bias: Any, config: BertConfig, new_rows: str) -> np.ndarray:
    """Return the entries of a resized MLM bias, float32 [vocab_size]; see `_rows`."""
    entries = np.asarray(keras.ops.convert_to_numpy(bias), np.float32)
    more = max(0, config.vocab_size - len(entries))
    value = entries.mean(dtype=np.float64) if new_rows == "mean" else 0.0
    return np.concatenate([entries[: config.vocab_size], np.full(more, value)]).astype(np.float32)
