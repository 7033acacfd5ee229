"""`BertConfig`: sizes and constants of an encoder of the BERT family."""

# A caller without a type checker may pass anything: arguments are checked when it runs.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bert_keras import file_io
from bert_keras.config_checks import DISENTANGLED, ROTARY, checked, checked_heads


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
        num_tasks: number of rows of a task table, whose first row is added to every token; 0 for no
            such table (ERNIE 2.0 and 3.0 were pretrained with others; Sun et al., 2020, §3.2).
        embedding_size: width of the embedding tables; None for `hidden_size`. Tables of another
            width are projected to it (ALBERT, ELECTRA).
        num_unique_layers: number of blocks with weights of their own; None for `num_layers`. With
            fewer, layers share blocks (ALBERT: 1).
        position_offset: number of unused rows before the first position (RoBERTa: 2).
        position_embedding: "absolute" for a learned table; "sinusoidal" for a fixed one (Vaswani et
            al., 2017, §3.5); "relative_key" or "relative_key_query" for learned distances within
            the attention (Shaw et al., 2018; Huang et al., 2020, methods 2 and 4); "none" where
            only `attention_positions` has positions, or nothing has.
        attention_positions: positions within the attention, also beside a table: "none"; "rotary"
            turns queries and keys, of which each number is paired with one half a head away, or
            with "rotary_interleaved" with the next one (Su et al., 2021); "alibi" subtracts the
            distance times a slope for each head (Press et al., 2022); "buckets" adds a learned
            number for each head and range of distances (Raffel et al., 2020, §2.1);
            "disentangled" adds products of tokens with learned vectors of distances (He et al.,
            2021), which "disentangled_shared" projects by the kernels of queries and keys.
        rotary_values: whether rotary positions turn the values too (a choice of RoFormer).
        rotary_base: base of the rotation rates. The larger it is, the farther a head can look.
        local_rotary_base: the same for layers with a `window`; None for `rotary_base`.
        rotary_scale: factor of NTK scaling, 1 for none: it multiplies the bases, and its power
            2 / `head_size` divides the rates, in texts of any length (GTE; Su, 2023).
        position_buckets: number of buckets: of "buckets", or of each sign of "disentangled", where
            0 gives every distance a vector of its own.
        max_distance: distance from which on all have the last bucket or vector.
        position_norm: whether the vectors of distances of "disentangled" are normalised.
        window: number of tokens to each side to which a token attends in local layers; None where
            every layer is global.
        global_every: of this many layers one is global, the others have the `window`.
        global_offset: number of the first global layer, less than `global_every`.
        pruned_heads: numbers of the removed heads before any was removed: a tuple for each block
            with weights of its own; () for none at all.
        pooler: whether the encoder has a pooler, a dense tanh layer over the output of [CLS].
        activation: activation of the feed-forward layers and the MLM head. "gelu" is the exact form
            with erf. "gelu_tanh" is the approximation that Google's first code also calls "gelu".
        block: kind of transformer blocks, a key of `models.encoder_layers.BLOCKS`: "post_norm"
            normalises after each residual sum, "pre_norm" before each sublayer and after the last
            block (Xiong et al., 2020).
        norm: kind of normalisation: "layer" (Ba et al., 2016), or "rms" without a mean (Zhang &
            Sennrich, 2019).
        norm_bias: whether layer normalisations have a bias; "rms" has none.
        embedding_norm: whether the embeddings are normalised.
        first_norm: whether the first block of "pre_norm" normalises before its attention.
        gated: whether the feed-forward layers are gated: the activation of one dense layer
            multiplies another one (Shazeer, 2020).
        num_key_value_heads: number of heads of keys and values, each for as many heads of queries;
            None for `num_heads` (Ainslie et al., 2023).
        attention_bias: whether the four projections of the attention have biases.
        key_bias: whether that of the keys has one, if the others have (first DeBERTa: no).
        intermediate_bias: whether the first dense layers of the feed-forward layers have biases.
        output_bias: whether the last one has.
        layer_norm_epsilon: number that is added to the variance.
        dropout: dropout rate of the embeddings and of every sublayer's output.
        attention_dropout: dropout rate of the attention probabilities.
        intermediate_dropout: dropout rate within the feed-forward layers, before the last one.
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
    attention_positions: str = "none"
    rotary_base: float = 10_000.0
    local_rotary_base: float | None = None
    position_buckets: int = 0
    max_distance: int = 128
    position_norm: bool = False
    window: int | None = None
    global_every: int = 1
    global_offset: int = 0
    norm: str = "layer"
    norm_bias: bool = True
    embedding_norm: bool = True
    first_norm: bool = True
    gated: bool = False
    num_key_value_heads: int | None = None
    attention_bias: bool = True
    intermediate_bias: bool = True
    output_bias: bool = True
    intermediate_dropout: float = 0.0
    key_bias: bool = True
    rotary_values: bool = False
    num_tasks: int = 0
    rotary_scale: float = 1.0

    def __post_init__(self) -> None:
        """Fill in sizes that follow from others, and check every value."""
        for name, same in _SAME.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, getattr(self, same))
        if self.norm == "rms":
            object.__setattr__(self, "norm_bias", False)
        for field in dataclasses.fields(self):
            value = checked(field.name, getattr(self, field.name))
            object.__setattr__(self, field.name, value)
        for whole, part in (("hidden_size", "num_heads"), ("num_heads", "num_key_value_heads")):
            if getattr(self, whole) % getattr(self, part):
                raise ValueError(
                    f"`{part}` must divide `{whole}`. Received: {whole}={getattr(self, whole)}, "
                    f"{part}={getattr(self, part)}"
                )
        heads = checked_heads(self.pruned_heads, self.unique_layers, self.num_heads)
        object.__setattr__(self, "pruned_heads", heads)
        if self.unique_layers > self.num_layers:
            raise ValueError(
                "`num_unique_layers` must not exceed `num_layers`. Received: "
                f"num_unique_layers={self.num_unique_layers}, num_layers={self.num_layers}"
            )
        for problem, is_so in self._contradictions().items():
            if is_so:
                raise ValueError(f"{problem}. Received: {self}")
        if self._matrices > _MOST_WEIGHTS:
            raise ValueError(
                f"The sizes make more than {_MOST_WEIGHTS:,} weights, more than any encoder has. "
                f"Received: {self}"
            )

    @property
    def _matrices(self) -> int:
        """Number of weights in tables and kernels, which are nearly all weights."""
        rows = self.vocab_size + self.position_rows + self.num_segments + self.num_tasks
        parts = 3 if self.gated else 2
        block = 4 * self.hidden_size**2 + parts * self.hidden_size * self.intermediate_size
        return rows * self.table_size + self.unique_layers * block

    def _contradictions(self) -> dict[str, bool]:
        """Return sentences on values that do not fit each other, and whether each is the case."""
        positions, buckets = self.attention_positions, self.position_buckets
        is_grouped = self.key_value_heads < self.num_heads
        return {
            '`attention_positions` must be "none" beside a relative `position_embedding`': (
                self.has_relative_positions and positions != "none"
            ),
            "Rotary positions need heads of an even size": (
                positions in ROTARY and self.head_size % 2 == 1
            ),
            '"buckets" need an even number of `position_buckets`, 4 or more, and a `max_distance` '
            "above a fourth of it": (
                positions == "buckets"
                and (buckets < 4 or buckets % 2 == 1 or self.max_distance <= buckets // 4)
            ),
            '"disentangled" positions need 4 `position_buckets` or more, or 0, and a larger '
            "`max_distance` than half of them": (
                positions in DISENTANGLED
                and buckets > 0
                and (buckets < 4 or self.max_distance - 1 <= buckets // 2)
            ),
            "`global_offset` must be less than `global_every`": (
                self.global_offset >= self.global_every
            ),
            '`first_norm` must be true where `block` is "post_norm"': (
                self.block == "post_norm" and not self.first_norm
            ),
            'Heads cannot be pruned with grouped keys and values, "alibi" or "buckets"': (
                bool(self.pruned_heads) and (is_grouped or positions in ("alibi", "buckets"))
            ),
        }

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
        """True if `position_embedding` adds a learned score for the distance of two tokens."""
        return self.position_embedding in ("relative_key", "relative_key_query")

    @property
    def distance_span(self) -> int:
        """Number of learned vectors for each sign of a distance; 0 without such vectors."""
        has_vectors = self.attention_positions in DISENTANGLED
        return (self.position_buckets or self.max_distance) if has_vectors else 0

    @property
    def learns_distances(self) -> bool:
        """True if the attention adds any learned score for the distance of two tokens."""
        return self.has_relative_positions or self.attention_positions in ("buckets", *DISENTANGLED)

    @property
    def band_window(self) -> int | None:
        """`window` of local layers computed in bands; None if scores are added for distances."""
        return None if self.learns_distances or self.attention_positions == "alibi" else self.window

    @property
    def takes_generator(self) -> bool:
        """True if ELECTRA's pretraining can make a generator for an encoder with these values."""
        is_whole = self.unique_layers == self.num_layers and not self.pruned_heads
        is_like_bert = self.block == "post_norm" and self.attention_positions == "none"
        return is_whole and is_like_bert and self.window is None and self.position_rows > 0

    @property
    def key_value_heads(self) -> int:
        """Number of heads of keys and values, `num_key_value_heads` resolved."""
        assert self.num_key_value_heads is not None
        return self.num_key_value_heads

    def is_local(self, layer: int) -> bool:
        """Return whether the tokens of a layer attend within the `window` alone."""
        return self.window is not None and layer % self.global_every != self.global_offset

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

        `embedding_size`, `num_unique_layers` and `num_key_value_heads` change with `hidden_size`,
        `num_layers` and `num_heads` if they are equal to them and not passed.
        """
        values = self.to_dict() | changes
        for name, same in _SAME.items():
            if same in changes and getattr(self, name) == getattr(self, same):
                values[name] = changes.get(name)
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
            num_key_value_heads=math.gcd(num_heads, self.key_value_heads)
            if self.key_value_heads < self.num_heads
            else None,
        )

    def heads_of_layer(self, layer: int) -> list[int]:
        """Return the numbers of a layer's heads, as they were before any was removed."""
        block = layer * self.unique_layers // self.num_layers
        removed = self.pruned_heads[block] if self.pruned_heads else ()
        return [head for head in range(self.num_heads) if head not in removed]

    def to_dict(self) -> dict[str, Any]:
        """Return the values by name, ready for JSON.

        Values that came later are left out at their defaults, so that earlier versions of this
        package open the files of encoders that they know.
        """
        values = dataclasses.asdict(self)
        for field in dataclasses.fields(self):
            default = getattr(self, _SAME.get(field.name, ""), field.default)
            if field.name in _LATER and values[field.name] == default:
                del values[field.name]
        return {**values, "pruned_heads": [list(numbers) for numbers in self.pruned_heads]}

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


# Values that are those of another one if they are None.
_SAME = {
    "embedding_size": "hidden_size",
    "num_unique_layers": "num_layers",
    "num_key_value_heads": "num_heads",
}
# Values that the first version of this package did not have.
_LATER = (
    *("attention_positions", "rotary_base", "local_rotary_base", "position_buckets"),
    *("max_distance", "position_norm", "window", "global_every", "global_offset", "norm"),
    *("norm_bias", "embedding_norm", "first_norm", "gated", "num_key_value_heads"),
    *("attention_bias", "intermediate_bias", "output_bias", "intermediate_dropout"),
    *("key_bias", "rotary_values", "num_tasks", "rotary_scale"),
)
# Limit for all weights. The largest published BERT has 3.9 billion; a dry run may plan more.
_MOST_WEIGHTS = 2**40
