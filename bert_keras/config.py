"""`BertConfig`: sizes and constants of an encoder of the BERT family."""

# A caller without a type checker may pass anything: arguments are checked when it runs.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from bert_keras import file_io

FAMILIES = ("bert", "roberta", "distilbert", "albert", "electra")
POSITION_EMBEDDINGS = ("absolute", "sinusoidal", "relative_key", "relative_key_query")
BLOCKS = ("post_norm",)
ACTIVATIONS = ("gelu", "gelu_tanh", "relu", "silu", "tanh")


@dataclasses.dataclass(frozen=True, kw_only=True)
class BertConfig:
    """Sizes and constants of an encoder. Families differ only in these values.

    The defaults are those of BERT-base (Devlin et al., 2019, §3). Dtype, sequence length, batch
    size and learning rate belong to a run and are not part of the config.

    Attributes:
        vocab_size: number of rows of the token table. `MOST` has the limits of all counts.
        hidden_size: width of every layer's output.
        num_layers: number of blocks that are applied.
        num_heads: number of attention heads of a block; it must divide `hidden_size`.
        intermediate_size: inner width of the feed-forward layers.
        max_positions: number of positions, the maximum sequence length.
        num_segments: number of rows of the segment table; 0 for none (DistilBERT), 1 for RoBERTa.
        embedding_size: width of the embedding tables; None for `hidden_size`. Tables of another
            width are projected to it (ALBERT, ELECTRA).
        num_unique_layers: number of blocks with weights of their own; None for `num_layers`. With
            fewer, layers share blocks (ALBERT: 1).
        position_offset: number of unused rows before the first position (RoBERTa: 2).
        position_embedding: "absolute" for a learned table; "sinusoidal" for a fixed one (Vaswani et
            al., 2017, §3.5); "relative_key" or "relative_key_query" for learned distances within
            the attention (Shaw et al., 2018; Huang et al., 2020, methods 2 and 4).
        pruned_heads: numbers of the removed heads before any was removed: a tuple for each block
            with weights of its own; () for none at all.
        pooler: whether the encoder has a pooler, a dense tanh layer over the output of [CLS].
        activation: activation of the feed-forward layers and the MLM head. "gelu" is the exact form
            with erf. "gelu_tanh" is the approximation that Google's first code also calls "gelu".
        block: kind of transformer blocks, a key of `models.encoder_layers.BLOCKS`.
        layer_norm_epsilon: number that is added to the variance.
        dropout: dropout rate of the embeddings and of every sublayer's output.
        attention_dropout: dropout rate of the attention probabilities.
        initializer_range: standard deviation of new weights (truncated normal).
        family: family whose names are used in checkpoints. It does not affect the computation.

    Raises:
        ValueError: if a value is out of range or does not fit another.
    """

    vocab_size: int
    hidden_size: int = 768
    num_layers: int = 12
    num_heads: int = 12
    intermediate_size: int = 3072
    max_positions: int = 512
    num_segments: int = 2
    embedding_size: int | None = None
    num_unique_layers: int | None = None
    position_offset: int = 0
    position_embedding: str = "absolute"
    pruned_heads: tuple[tuple[int, ...], ...] = ()
    pooler: bool = True
    activation: str = "gelu"
    layer_norm_epsilon: float = 1e-12
    dropout: float = 0.1
    attention_dropout: float = 0.1
    initializer_range: float = 0.02
    block: str = "post_norm"
    family: str = "bert"

    def __post_init__(self) -> None:
        """Fill in sizes that follow from others, and check every value."""
        if self.embedding_size is None:
            object.__setattr__(self, "embedding_size", self.hidden_size)
        if self.num_unique_layers is None:
            object.__setattr__(self, "num_unique_layers", self.num_layers)
        for name, most in MOST.items():
            least = 0 if name in _MAY_BE_ZERO else 1
            value = _whole(name, getattr(self, name), at_least=least, at_most=most)
            object.__setattr__(self, name, value)
        for name in ("dropout", "attention_dropout", "layer_norm_epsilon", "initializer_range"):
            is_rate = name in ("dropout", "attention_dropout")
            value = _number(name, getattr(self, name), 0.0, 1.0, inclusive=is_rate)
            object.__setattr__(self, name, value)
        if not isinstance(self.pooler, bool):
            raise ValueError(f"`pooler` must be true or false. Received: pooler={self.pooler!r}")
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if not isinstance(value, str) or value not in choices:
                raise ValueError(
                    f"`{name}` must be one of {', '.join(choices)}. Received: {name}={value!r:.100}"
                )
        if self.hidden_size % self.num_heads:
            raise ValueError(
                "`num_heads` must divide `hidden_size`. "
                f"Received: hidden_size={self.hidden_size}, num_heads={self.num_heads}"
            )
        object.__setattr__(self, "pruned_heads", self._checked_heads())
        if self.unique_layers > self.num_layers:
            raise ValueError(
                "`num_unique_layers` must not exceed `num_layers`. Received: "
                f"num_unique_layers={self.num_unique_layers}, num_layers={self.num_layers}"
            )

        if self._matrices > _MOST_WEIGHTS:
            raise ValueError(
                f"The sizes make more than {_MOST_WEIGHTS:,} weights, more than any encoder has. "
                f"Received: {self}"
            )

    @property
    def _matrices(self) -> int:
        """Number of weights in tables and kernels, which are nearly all weights."""
        rows = self.vocab_size + self.position_rows + self.num_segments
        block = 4 * self.hidden_size**2 + 2 * self.hidden_size * self.intermediate_size
        return rows * self.table_size + self.unique_layers * block

    def _checked_heads(self) -> tuple[tuple[int, ...], ...]:
        """Return `pruned_heads` sorted, as tuples of ints.

        Raises:
            ValueError: if they are not lists of heads for each block, or a block has no head left.
        """
        blocks = self.pruned_heads
        if blocks in ((), []):
            return ()
        good = isinstance(blocks, tuple | list) and len(blocks) == self.unique_layers
        for heads in blocks if good else ():
            good = good and isinstance(heads, tuple | list) and len(set(heads)) < self.num_heads
            good = good and all(_is_whole(h) and 0 <= h < self.num_heads for h in heads)
        if not good:
            raise ValueError(
                f"`pruned_heads` must be {self.unique_layers} lists of heads from 0 to "
                f"{self.num_heads - 1}, none of them of all heads. "
                f"Received: pruned_heads={blocks!r}"
            )
        result = tuple(tuple(sorted({int(h) for h in heads})) for heads in blocks)
        return result if any(result) else ()

    def heads_of(self, block: int) -> int:
        """Return the number of heads that a block still has."""
        return self.num_heads - (len(self.pruned_heads[block]) if self.pruned_heads else 0)

    @property
    def head_size(self) -> int:
        """Width of a head."""
        return self.hidden_size // self.num_heads

    @property
    def table_size(self) -> int:
        """Width of the embedding tables, `embedding_size` resolved."""
        assert self.embedding_size is not None
        return self.embedding_size

    @property
    def position_rows(self) -> int:
        """Number of rows of the position table; 0 for relative positions in the attention."""
        is_table = self.position_embedding in ("absolute", "sinusoidal")
        return self.max_positions + self.position_offset if is_table else 0

    @property
    def has_relative_positions(self) -> bool:
        """True if the attention adds a learned score for the distance of two tokens."""
        return self.position_embedding in ("relative_key", "relative_key_query")

    def check_rows(self, num_entries: int) -> None:
        """Raise `ValueError` unless the token table has a row for each entry of a tokenizer.

        It may have more rows. Many published tables are padded to a multiple of 8 or 64.

        Args:
            num_entries: number of entries, `tokenizer.vocab_size`.
        """
        if num_entries > self.vocab_size:
            raise ValueError(
                f"The tokenizer has {num_entries} entries, the model's token table "
                f"{self.vocab_size} rows. Take the tokenizer that the model was trained with; "
                "after `add_tokens` or for a vocabulary that has grown, call "
                f"model = model.resize_vocabulary({num_entries}) first, or open the model with "
                f"from_preset(..., vocab_size={num_entries})."
            )

    @property
    def unique_layers(self) -> int:
        """Number of blocks with weights of their own, `num_unique_layers` resolved."""
        assert self.num_unique_layers is not None
        return self.num_unique_layers

    def replace(self, **changes: Any) -> BertConfig:
        """Return a copy with some values changed.

        `embedding_size` and `num_unique_layers` change with `hidden_size` and `num_layers` if they
        are equal to them and not passed.
        """
        values = self.to_dict() | changes
        if "hidden_size" in changes and self.embedding_size == self.hidden_size:
            values["embedding_size"] = changes.get("embedding_size")
        if "num_layers" in changes and self.num_unique_layers == self.num_layers:
            values["num_unique_layers"] = changes.get("num_unique_layers")
        return BertConfig.from_dict(values)

    def narrowed(self, share: float) -> BertConfig:
        """Return a narrower copy with tables of the same width, such as an ELECTRA generator.

        Args:
            share: share of the heads (and so of the hidden size) and of the intermediate size that
                is kept, above 0 and at most 1.

        Raises:
            ValueError: if the share is out of range.
        """
        if not 0 < share <= 1:
            raise ValueError(f"`share` must be above 0 and at most 1. Received: share={share!r}")
        num_heads = max(1, round(self.num_heads * share))
        return self.replace(
            num_heads=num_heads,
            hidden_size=num_heads * self.head_size,
            intermediate_size=max(1, round(self.intermediate_size * share)),
            embedding_size=self.table_size,
        )

    def heads_of_layer(self, layer: int) -> list[int]:
        """Return the numbers of a layer's heads, as they were before any was removed."""
        block = layer * self.unique_layers // self.num_layers
        removed = self.pruned_heads[block] if self.pruned_heads else ()
        return [head for head in range(self.num_heads) if head not in removed]

    def to_dict(self) -> dict[str, Any]:
        """Return all values by name, ready for JSON."""
        heads = [list(numbers) for numbers in self.pruned_heads]
        return {**dataclasses.asdict(self), "pruned_heads": heads}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> BertConfig:
        """Return the config of values by name.

        Raises:
            ValueError: if a name is unknown, `vocab_size` is missing, or a value is out of range.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        if unknown := sorted(set(values) - known):
            raise ValueError(
                f"Unknown config values: {', '.join(unknown)}. Known: {', '.join(sorted(known))}"
            )
        if "vocab_size" not in values:
            raise ValueError(
                "The config has no `vocab_size`. Add the number of entries of the vocabulary. "
                f"Received: {', '.join(sorted(values)) or 'no values'}"
            )
        return cls(**values)

    def save(self, path: str | Path) -> None:
        """Write the values as JSON, atomically."""
        file_io.write_json(path, self.to_dict())

    @classmethod
    def load(cls, path: str | Path) -> BertConfig:
        """Read what `save` wrote.

        Raises:
            ArtifactError: if there is no such file, or it is not a JSON object.
            ValueError: if a name is unknown, or a value is out of range.
        """
        return cls.from_dict(file_io.read_object(Path(path)))


_CHOICES = {
    "activation": ACTIVATIONS,
    "position_embedding": POSITION_EMBEDDINGS,
    "block": BLOCKS,
    "family": FAMILIES,
}
# Limit of each count, several times that of any published encoder. A larger config is a mistake or
# an attack. The tensors alone cannot show that: ALBERT's layers share one block, for example.
MOST = {
    "vocab_size": 2**24,
    "hidden_size": 2**16,
    "num_layers": 512,
    "num_heads": 2**10,
    "intermediate_size": 2**18,
    "max_positions": 2**20,
    "num_segments": 2**10,
    "embedding_size": 2**16,
    "num_unique_layers": 512,
    "position_offset": 2**10,
}
# Limit for all weights. The largest published BERT has 3.9 billion; a dry run may plan more.
_MOST_WEIGHTS = 2**40
_MAY_BE_ZERO = ("num_segments", "position_offset")


def _whole(name: str, value: Any, *, at_least: int, at_most: int) -> int:
    """Return a whole number as a Python int, which JSON can hold.

    Raises:
        ValueError: if it is not a whole number, or beyond the limits.
    """
    if not _is_whole(value) or not at_least <= value <= at_most:
        raise ValueError(
            f"`{name}` must be an integer of at least {at_least} and at most {at_most:,}. "
            f"Received: {name}={value!r:.100}"
        )
    return int(value)


def _is_whole(value: Any) -> bool:
    """Return whether a value is an integer, NumPy's included, and not a bool."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def _number(name: str, value: Any, low: float, high: float, *, inclusive: bool) -> float:
    """Return a number as a Python int or float, which JSON can hold.

    Raises:
        ValueError: if it is not a number, or beyond the limits.
    """
    number = math.nan  # NaN is beyond all limits
    if isinstance(value, Real) and not isinstance(value, bool):
        number = value if isinstance(value, int) else float(value)
    if not (low <= number < high if inclusive else low < number < high):
        interval = f"{'[' if inclusive else '('}{low:g}, {high:g})"
        raise ValueError(
            f"`{name}` must be a number in {interval}. Received: {name}={value!r:.100}"
        )
    return number
