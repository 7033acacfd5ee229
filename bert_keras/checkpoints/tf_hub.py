"""Google's BERT, ALBERT and ELECTRA encoders of TensorFlow Hub and Kaggle, read only.

The names are those of TensorFlow's Model Garden (official/nlp/modeling), which exported them.
"""

from __future__ import annotations

import dataclasses
import re
import types
from pathlib import Path
from typing import Any

from bert_keras import file_io
from bert_keras.checkpoints import google_tf1, tensors, tf_checkpoint
from bert_keras.checkpoints.checkpoint import Checkpoint, Shapes
from bert_keras.checkpoints.google_tf1 import CONFIGS
from bert_keras.checkpoints.keras_hub_names import LEAVES, split_heads
from bert_keras.checkpoints.name_mapping import LeafRule, NameMap
from bert_keras.config import BertConfig
from bert_keras.errors import ArtifactError
from bert_keras.presets import PRESETS
from bert_keras.task_names import ENCODER

_BLOCK = {
    "attention/query": "self_attention/query",
    "attention/key": "self_attention/key",
    "attention/value": "self_attention/value",
    "attention/output": "self_attention/attention_output",
    "attention_layer_norm": "self_attention_layer_norm",
    "feedforward/intermediate": "intermediate",
    "feedforward/output": "output",
    "feedforward_layer_norm": "output_layer_norm",
}
_MODULES = {
    "embeddings/token": "word_embeddings",
    "embeddings/position": "position_embedding",
    "embeddings/segment": "type_embeddings",
    "embeddings/layer_norm": "embeddings/layer_norm",
    "embeddings/projection": "embedding_projection",
    "pooler/dense": "pooler_transform",
    "mlm/dense": "cls/predictions/transform/dense",
    "mlm/layer_norm": "cls/predictions/transform/LayerNorm",
    "mlm": "cls/predictions/output_bias",
}
POOLER, HEAD = "pooler_transform/kernel", "cls/predictions/transform/dense/kernel"
PROJECTION = "embedding_projection/kernel"
# The first models of 2019 and 2020 -> those after them.
_OLD = {
    "embedding_postprocessor/type_embeddings": "type_embeddings/embeddings",
    "embedding_postprocessor/position_embeddings": "position_embedding/embeddings",
    "embedding_postprocessor/layer_norm/": "embeddings/layer_norm/",
    "encoder/layer_": "transformer/layer_",
    "/self_attention_output/": "/self_attention/attention_output/",
}
_STARTS = (
    *("word_embeddings/", "position_embedding/", "type_embeddings/", "embeddings/layer_norm/"),
    *("embedding_projection/", "embedding_postprocessor/", "encoder/layer_", "transformer/"),
    *("pooler_transform/", "cls/predictions/"),
)
_MODEL = re.compile(rf"^(?:.*?/)?(?={'|'.join(map(re.escape, _STARTS))})")
_MODULE = re.compile(r"^module(?:_\d+)?/")


def current_name(variable: str) -> str:
    """The name by which the tables know a variable that may be of a named model, or an old one."""
    variable = _MODEL.sub("", variable)
    for old, current in _OLD.items():
        variable = variable.replace(old, current)
    return variable


def tf1_name(variable: str) -> str:
    """The name by which `google_tf1` knows a variable of a module of TensorFlow 1."""
    return _MODULE.sub("", variable)


def names_of(num_heads: int, *, shared: bool) -> NameMap:
    """The names of an encoder, with or without the head of a masked language model.

    Args:
        num_heads: of a block; their attention has an axis for the heads.
        shared: whether all layers share one block, as in ALBERT.
    """
    block = "transformer" if shared else "transformer/layer_#"
    blocks = {f"block_#/{ours}": f"{block}/{theirs}" for ours, theirs in _BLOCK.items()}
    modules = {**_MODULES, **blocks}
    whole: dict[str, LeafRule] = {**split_heads(modules, LEAVES, num_heads)}
    return NameMap(modules, LEAVES, "/", whole)


# === Reading ===
# They are SavedModels, which are programs. Nothing of the program is opened here, not even
# saved_model.pb: TensorFlow's reader of checkpoints reads the variables, which tell every size.
# What they do not tell is as Google published it:
#
# - activation "gelu_tanh", which Google calls "gelu"; `layer_norm_epsilon` 1e-12;
# - `dropout` and `attention_dropout` 0.1, in ALBERT 0 (its version 2, the one that is there);
# - ALBERT's number of layers, which share one block, by its width: 12, 24, 24, 12 for 768, 1024,
#   2048
#   and 4096;
# - in modules of TensorFlow 1 the number of heads too: heads of 64, and ALBERT's 12, 16, 16, 64.
#
# A bert_config.json or albert_config.json of Google's beside saved_model.pb is believed instead.


MODEL, VARIABLES = "saved_model.pb", "variables/variables"
# What a repository is asked for: the index to know one by, the rest if it is trusted.
INDEX, FILES = f"{VARIABLES}.index", (f"{VARIABLES}.data-*", *CONFIGS.values())
_HEAD_SIZE = 64
_ALBERT = {config.hidden_size: config for config in PRESETS.values() if config.family == "albert"}
_CONSTANTS = {"activation": "gelu_tanh", "layer_norm_epsilon": 1e-12}
_LAYER = re.compile(r"(?:^|/)layer_(\d+)/")


def is_one(directory: Path) -> bool:
    """Return whether a folder is a SavedModel."""
    return (directory / INDEX).is_file()


@dataclasses.dataclass(frozen=True)
class HubFolder(Checkpoint):
    """A SavedModel whose variables are those of an encoder.

    Attributes:
        directory: where it is.
        config_path: a config of Google's beside it, if there is one.
        values: what that says.
    """

    directory: Path
    config_path: Path | None
    values: dict[str, Any]

    @classmethod
    def open(cls, directory: Path, *, trust: bool) -> HubFolder:
        """Reads the config, if there is one.

        Raises:
            ArtifactError: it is not trusted.
        """
        if not trust:
            raise ArtifactError(
                f"{directory}: a SavedModel, which is a program. Only its variables would be read, "
                "and no function of it run; but they do not tell the activation, the epsilon of "
                "the layer norms and the dropout, nor how many layers of an ALBERT share a block, "
                "so those of Google's published models would be taken: gelu in its tanh form, "
                "1e-12, 0.1 (ALBERT: 0). If this is such a model: trust=True (--trust). "
                f"One of {', '.join(CONFIGS.values())} beside {MODEL} is believed instead."
            )
        for name in CONFIGS.values():
            if (path := directory / name).is_file():
                return cls(directory, path, file_io.read_object(path))
        return cls(directory, None, {})

    @property
    def class_name(self) -> str:
        """Told by the variables of the head."""
        with self.source() as source:
            if _is_tf1(source.shapes):
                return google_tf1.class_of(source.shapes)
            has_head = HEAD in source.shapes
        return "MaskedLM" if has_head else ENCODER

    def source(self, *, verify: bool = False) -> tensors.Tensors:
        """Opens the variables."""
        del verify  # the reader checks what it reads
        opened = tf_checkpoint.VariableFile(self.directory / VARIABLES)
        is_tf1 = _is_tf1(opened.shapes)
        opened.rename(tf1_name if is_tf1 else current_name)
        return opened

    def read_config(self, shapes: Shapes, allow_missing: tuple[str, ...]) -> BertConfig:
        """The config, from Google's file if there is one, else from the shapes."""
        family = _family_of(shapes)
        has_pooler = POOLER in shapes or google_tf1.has_pooler(shapes)
        pooler = has_pooler or "pooler" in allow_missing
        if self.config_path is not None:
            return google_tf1.read_config(self.values, self.config_path, family, pooler=pooler)
        sizes = self._sizes(family, shapes)
        dropout = 0.0 if family == "albert" else 0.1
        try:
            return BertConfig(
                **sizes,
                **_CONSTANTS,
                dropout=dropout,
                attention_dropout=dropout,
                pooler=pooler,
                family=family,
            )
        except ValueError as error:
            raise ArtifactError(f"{self.directory / VARIABLES}: {error}") from error

    def saved_options(
        self, class_name: str, config: BertConfig, shapes: Shapes
    ) -> tuple[dict[str, Any], Path]:
        """Those that a module of TensorFlow 1 tells."""
        is_tf1 = _is_tf1(shapes)
        options = google_tf1.options_of(class_name, config.family, shapes) if is_tf1 else {}
        return options, self.directory / VARIABLES

    def names(self, class_name: str, config: BertConfig, shapes: Shapes) -> NameMap:
        """By the Model Garden's rows, or by those of TensorFlow 1."""
        return _names(config.family, class_name, config.num_heads, shapes)

    def _sizes(self, family: str, shapes: Shapes) -> dict[str, Any]:
        """The sizes of a config, as far as shapes and Google's habits tell them."""
        is_tf1 = _is_tf1(shapes)
        names = _names(family, ENCODER, 1, shapes)

        def shape(path: str, rank: int = 2) -> tuple[int, ...]:
            (entry,) = names.entries([types.SimpleNamespace(path=path)])
            found = shapes.get(entry.tensor)
            if found is None or len(found) != rank:
                what = "missing" if found is None else f"of shape {list(found)}"
                raise ArtifactError(
                    f"{self.directory / VARIABLES}: {entry.tensor} is {what}, where an encoder of "
                    f"Google's has {rank} axes that tell its sizes. "
                    f"Received: {', '.join(sorted(shapes)[:5]) or 'no variables'}"
                )
            return found

        vocab_size, embedding_size = shape("embeddings/token/embeddings")
        hidden_size, *heads = shape("block_0/attention/query/kernel", 2 if is_tf1 else 3)
        layers, known_heads = self._habits(family, hidden_size, is_tf1, shapes)
        return {
            "vocab_size": vocab_size,
            "hidden_size": hidden_size,
            "num_layers": layers,
            "num_unique_layers": 1 if family == "albert" else layers,
            "num_heads": known_heads if is_tf1 else heads[0],
            "intermediate_size": shape("block_0/feedforward/intermediate/kernel")[1],
            "max_positions": shape("embeddings/position/embeddings")[0],
            "num_segments": shape("embeddings/segment/embeddings")[0],
            "embedding_size": embedding_size,
        }

    def _habits(
        self, family: str, hidden_size: int, is_tf1: bool, shapes: Shapes
    ) -> tuple[int, int]:
        """The numbers of layers and of heads, of which the variables may tell nothing."""
        if family == "albert" and hidden_size in _ALBERT:
            return _ALBERT[hidden_size].num_layers, _ALBERT[hidden_size].num_heads
        if family != "albert" and not (is_tf1 and hidden_size % _HEAD_SIZE):
            numbers = {match[1] for name in shapes if (match := _LAYER.search(name))}
            return len(numbers), hidden_size // _HEAD_SIZE
        what = "layers" if family == "albert" else "heads"
        raise ArtifactError(
            f"{self.directory / VARIABLES}: the variables do not tell how many {what} there are, "
            f"and Google published no {family} of {hidden_size} units. Put the "
            f"{CONFIGS[family]} that it was made with beside {MODEL}."
        )


def _is_tf1(shapes: Shapes) -> bool:
    """Return whether the names are those of Google's code for TensorFlow 1."""
    return any(name.endswith("embeddings/word_embeddings") for name in shapes)


def _family_of(shapes: Shapes) -> str:
    """Told by the variables; an ELECTRA whose tables are not projected is a BERT."""
    if _is_tf1(shapes):
        return google_tf1.family_of(shapes)
    if any(name.startswith("transformer/") for name in shapes) and not any(
        name.startswith("transformer/layer_") for name in shapes
    ):
        return "albert"
    return "electra" if PROJECTION in shapes else "bert"


def _names(family: str, class_name: str, num_heads: int, shapes: Shapes) -> NameMap:
    if _is_tf1(shapes):
        return google_tf1.names_of(family, class_name, shapes)
    return names_of(num_heads, shared=family == "albert")
