"""Reader of Google's BERT, ALBERT and ELECTRA encoders from TensorFlow Hub and Kaggle.

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
from bert_keras.checkpoints.weight_files import converted
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
_TABLE = f"{_MODULES['embeddings/token']}/embeddings"
POOLER, HEAD = "pooler_transform/kernel", "cls/predictions/transform/dense/kernel"
PROJECTION = "embedding_projection/kernel"
# Names in the models of 2019 and 2020 -> names in later models.
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
_SCOPE = re.compile(r"^module(?:_\d+)?/")


def current_name(variable: str) -> str:
    """Return the name of a variable in our tables, without a model's name and in its new form."""
    variable = _MODEL.sub("", variable)
    for old, current in _OLD.items():
        variable = variable.replace(old, current)
    return variable


def without_scope(variable: str) -> str:
    """Remove the scope of a TensorFlow 1 module: "module/bert/pooler/…" -> "bert/pooler/…".

    The result is a name in the tables of `google_tf1`.
    """
    return _SCOPE.sub("", variable)


def name_map(num_heads: int, *, shared: bool) -> NameMap:
    """Return the variable names of an encoder and of its MLM head.

    Args:
        num_heads: number of attention heads, which are an axis of the stored kernels.
        shared: whether all layers share one block, as in ALBERT.
    """
    block = "transformer" if shared else "transformer/layer_#"
    blocks = {f"block_#/{ours}": f"{block}/{theirs}" for ours, theirs in _BLOCK.items()}
    modules = {**_MODULES, **blocks}
    whole: dict[str, LeafRule] = {**split_heads(modules, LEAVES, num_heads)}
    return NameMap(modules, LEAVES, "/", whole)


# === Reading ===
# The models are SavedModels, which contain code. Only their variables are read, with TensorFlow's
# checkpoint reader; not even saved_model.pb is opened. The shapes of the variables show most sizes.
# For the rest, the values of Google's published models are assumed:
#
# - activation "gelu_tanh", which Google calls "gelu", and `layer_norm_epsilon` 1e-12;
# - `dropout` and `attention_dropout` 0.1; 0 in ALBERT (version 2, the only published one);
# - ALBERT's number of layers, which share one block: 12, 24, 24 and 12 for the hidden sizes 768,
#   1024, 2048 and 4096;
# - in modules of TensorFlow 1 also the number of heads: the hidden size divided by 64, in ALBERT
#   12, 16, 16 and 64.
#
# A bert_config.json or albert_config.json beside saved_model.pb replaces these assumptions.


MODEL, VARIABLES = "saved_model.pb", "variables/variables"
# Files to download: the index shows that a repository is one, the others follow with `trust`.
INDEX, FILES = f"{VARIABLES}.index", (f"{VARIABLES}.data-*", *CONFIGS.values())
_EXPORT = "assets.extra/export.json"  # in SavedModels that `export.saved_model` wrote
_HEAD_SIZE = 64
_ALBERT = {config.hidden_size: config for config in PRESETS.values() if config.family == "albert"}
_CONSTANTS = {"activation": "gelu_tanh", "layer_norm_epsilon": 1e-12}
_LAYER = re.compile(r"(?:^|/)layer_(\d+)/")


def is_one(directory: Path) -> bool:
    """Return whether a folder is a SavedModel."""
    return (directory / INDEX).is_file()


@dataclasses.dataclass(frozen=True)
class HubFolder(Checkpoint):
    """A SavedModel with the variables of an encoder, or a checkpoint of its training.

    Attributes:
        directory: path of the folder.
        config_path: path of Google's config in the folder; None if there is none.
        values: parsed config; {} if there is none.
        training: an object-based checkpoint of TensorFlow 2; None for a SavedModel.
    """

    directory: Path
    config_path: Path | None
    values: dict[str, Any]
    training: tf_checkpoint.Choice | None = None

    @classmethod
    def open(cls, directory: Path, *, trust: bool) -> HubFolder:
        """Read the config, if there is one.

        Raises:
            ArtifactError: if `trust` is False: without a config some values are assumed; or if the
                folder is an export of a task by this package.
        """
        if (directory / _EXPORT).is_file():
            raise ArtifactError(
                f"{directory}: a SavedModel of a task, exported for its answers. It states no "
                "config. Open the checkpoint that it was exported from. For answers: `bert-keras "
                "serve`, or tf.saved_model.load."
            )
        if not trust:
            raise ArtifactError(
                f"{directory}: a SavedModel, which is a program. Only its variables would be read, "
                "and no function of it run; but they do not state the activation, the epsilon of "
                "the layer norms and the dropout, nor how many layers of an ALBERT share a block, "
                "so those of Google's published models would be taken: gelu in its tanh form, "
                "1e-12, 0.1 (ALBERT: 0). If this is such a model: trust=True. "
                f"{converted('--trust')} "
                f"One of {', '.join(CONFIGS.values())} beside {MODEL} is believed instead."
            )
        for name in CONFIGS.values():
            if (path := directory / name).is_file():
                return cls(directory, path, file_io.read_object(path))
        return cls(directory, None, {})

    @classmethod
    def of_training(cls, folder: google_tf1.GoogleFolder) -> HubFolder:
        """Return the reader of a folder with a config and an object-based checkpoint."""
        return cls(folder.directory, folder.config_path, folder.values, folder.choice)

    @property
    def _variables(self) -> Path:
        """Prefix of the checkpoint with the variables."""
        return self.training.prefix if self.training else self.directory / VARIABLES

    @property
    def class_name(self) -> str:
        """Name of our class; the variables of the head show it."""
        with self.source() as source:
            if _is_tf1(source.shapes):
                return google_tf1.class_of(source.shapes)
            has_head = HEAD in source.shapes
        return "MaskedLM" if has_head else ENCODER

    def source(self, *, verify: bool = False) -> tensors.Tensors:
        """Open the variables."""
        del verify  # TensorFlow's reader compares checksums
        opened = (self.training or tf_checkpoint.Choice(self._variables)).open()
        is_tf1 = _is_tf1(opened.shapes)
        opened.rename(without_scope if is_tf1 else current_name)
        if self.training is not None and not is_tf1 and _TABLE not in opened.shapes:
            (lacking,) = tensors.with_closest([_TABLE], opened.shapes)
            raise ArtifactError(
                f"{opened.path}: an object-based checkpoint of TensorFlow 2. Its variables do not "
                f"have the names of TensorFlow's Model Garden: there is no {lacking}. Restore it "
                "in the program that wrote it, and write a format of the table in "
                "docs/checkpoints.md of bert_keras from there; or open the SavedModel that was "
                "exported from it, as on TensorFlow Hub and Kaggle, with trust=True."
            )
        return opened

    def read_config(self, shapes: Shapes, allow_missing: tuple[str, ...]) -> BertConfig:
        """Return the config from Google's file or, without one, from shapes and assumptions."""
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
            raise ArtifactError(f"{self._variables}: {error}") from error

    def saved_options(
        self, class_name: str, config: BertConfig, shapes: Shapes
    ) -> tuple[dict[str, Any], Path]:
        """Return the options that the variables of a TensorFlow 1 module show; else {}."""
        is_tf1 = _is_tf1(shapes)
        options = google_tf1.options_of(class_name, config.family, shapes) if is_tf1 else {}
        return options, self._variables

    def names(self, class_name: str, config: BertConfig, shapes: Shapes) -> NameMap:
        """Return the map from our variables to those of the SavedModel.

        The names in `shapes` show whether the Model Garden or TensorFlow 1 wrote it.
        """
        return _names(config.family, class_name, config.num_heads, shapes)

    def _sizes(self, family: str, shapes: Shapes) -> dict[str, Any]:
        """Return the sizes of a config, from the shapes of variables and published models."""
        if not shapes:
            raise ArtifactError(
                f"{self._variables}: has no variables, as the preprocessor of a pair. Name the "
                "folder of the encoder."
            )
        is_tf1 = _is_tf1(shapes)
        names = _names(family, ENCODER, 1, shapes)

        def shape(path: str, rank: int = 2) -> tuple[int, ...]:
            """Return the stored shape of our variable `path`, which must have `rank` axes."""
            (spec,) = names.tensor_specs([types.SimpleNamespace(path=path)])
            stored = shapes.get(spec.tensor)
            if stored is None or len(stored) != rank:
                state = f"of shape {list(stored or ())}"
                if stored is None:
                    (closest,) = tensors.with_closest([spec.tensor], shapes)
                    state = "missing" + closest.removeprefix(spec.tensor)
                raise ArtifactError(
                    f"{self._variables}: {spec.tensor} is {state}, where an encoder of "
                    f"Google's has {rank} axes that state its sizes. "
                    f"Received: {', '.join(sorted(shapes)[:5]) or 'no variables'}"
                )
            return stored

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
        """Return the numbers of layers and heads, as in Google's published models.

        Raises:
            ArtifactError: if the variables do not show them and no published model has this size.
        """
        if family == "albert" and hidden_size in _ALBERT:
            return _ALBERT[hidden_size].num_layers, _ALBERT[hidden_size].num_heads
        if family != "albert" and not (is_tf1 and hidden_size % _HEAD_SIZE):
            numbers = {match[1] for name in shapes if (match := _LAYER.search(name))}
            return len(numbers), hidden_size // _HEAD_SIZE
        unknown = "layers" if family == "albert" else "heads"
        raise ArtifactError(
            f"{self._variables}: the variables do not show how many {unknown} there "
            f"are, and Google published no {family} of {hidden_size} units. Put the "
            f"{CONFIGS[family]} that it was made with beside {MODEL}."
        )


def _is_tf1(shapes: Shapes) -> bool:
    """Return whether the variables have the names of Google's code for TensorFlow 1."""
    return any(name.endswith("embeddings/word_embeddings") for name in shapes)


def _family_of(shapes: Shapes) -> str:
    """Return the model family. An ELECTRA without an embedding projection equals a BERT."""
    if _is_tf1(shapes):
        return google_tf1.family_of(shapes)
    if any(name.startswith("transformer/") for name in shapes) and not any(
        name.startswith("transformer/layer_") for name in shapes
    ):
        return "albert"
    return "electra" if PROJECTION in shapes else "bert"


def _names(family: str, class_name: str, num_heads: int, shapes: Shapes) -> NameMap:
    """Return the variable names of a model, of TensorFlow 1 or of the Model Garden."""
    if _is_tf1(shapes):
        return google_tf1.name_map(family, class_name, shapes)
    return name_map(num_heads, shared=family == "albert")
