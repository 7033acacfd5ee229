"""Google's original TensorFlow 1 checkpoints of BERT, ALBERT and ELECTRA, both ways."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bert_keras import file_io
from bert_keras.checkpoints import hugging_face_names, streaming, tensors, tf_checkpoint
from bert_keras.checkpoints import manifest as manifests
from bert_keras.checkpoints.checkpoint import Checkpoint, Shapes, encoder_of
from bert_keras.checkpoints.hugging_face_family import CONSTANTS, SIZES, task_format
from bert_keras.checkpoints.name_mapping import LeafRule, NameMap
from bert_keras.checkpoints.wrapped_names import unwrapped
from bert_keras.config import BertConfig
from bert_keras.errors import ArtifactError, UsageError
from bert_keras.layers.state import plain_weights
from bert_keras.task_names import ENCODER

if TYPE_CHECKING:
    from bert_keras.models import BertEncoder, Task

# The config file of each family. ELECTRA was published without one.
CONFIGS = {name: f"{name}_config.json" for name in ("bert", "albert", "electra")}
LEAVES = {
    "kernel": LeafRule("kernel"),
    "bias": LeafRule("bias"),
    "embeddings": LeafRule(""),
    "gamma": LeafRule("gamma"),
    "beta": LeafRule("beta"),
}
HEADS = ("mlm", "nsp", "sop", "label", "span", "rtd", "generator")
_GENERATOR, _DISCRIMINATOR = "generator_predictions/output_bias", "discriminator_predictions/dense"
# Class and the variables that show it. The first class whose variables are all there applies.
TOLD_BY = (
    ("Pretrainer", {"cls/seq_relationship/output_weights"}),
    ("ElectraPretrainer", {_GENERATOR, f"{_DISCRIMINATOR}/kernel"}),
    ("ReplacedTokenDetector", {f"{_DISCRIMINATOR}/kernel"}),
    ("MaskedLM", {"cls/predictions/output_bias"}),
    ("MaskedLM", {_GENERATOR}),
    ("QuestionAnswerer", {"cls/squad/output_weights"}),
    ("SequenceClassifier", {"output_weights"}),
)

_EMBEDDINGS = {
    "embeddings/token": "embeddings/word_embeddings",
    "embeddings/segment": "embeddings/token_type_embeddings",
    "embeddings/position": "embeddings/position_embeddings",
    "embeddings/layer_norm": "embeddings/LayerNorm",
}
_BLOCK = {
    "block_#/attention/query": "encoder/layer_#/attention/self/query",
    "block_#/attention/key": "encoder/layer_#/attention/self/key",
    "block_#/attention/value": "encoder/layer_#/attention/self/value",
    "block_#/attention/output": "encoder/layer_#/attention/output/dense",
    "block_#/attention_layer_norm": "encoder/layer_#/attention/output/LayerNorm",
    "block_#/feedforward/intermediate": "encoder/layer_#/intermediate/dense",
    "block_#/feedforward/output": "encoder/layer_#/output/dense",
    "block_#/feedforward_layer_norm": "encoder/layer_#/output/LayerNorm",
}
_MLM = {
    "mlm/dense": "cls/predictions/transform/dense",
    "mlm/layer_norm": "cls/predictions/transform/LayerNorm",
}
# Classification heads. Google stores their matrix as (classes, hidden), the transpose of a kernel.
_CLASSIFIERS = {
    "label/output/kernel": LeafRule("output_weights", transposed=True),
    "label/output/bias": LeafRule("output_bias"),
    "span/output/kernel": LeafRule("cls/squad/output_weights", transposed=True),
    "span/output/bias": LeafRule("cls/squad/output_bias"),
}


def _pairs(name: str) -> dict[str, LeafRule]:
    """Return the names of the pretraining heads: the MLM bias and the sentence-pair head `name`."""
    return {
        "mlm/bias": LeafRule("cls/predictions/output_bias"),
        f"{name}/dense/kernel": LeafRule("cls/seq_relationship/output_weights", transposed=True),
        f"{name}/dense/bias": LeafRule("cls/seq_relationship/output_bias"),
    }


@dataclasses.dataclass(frozen=True)
class GoogleFamily:
    """Google's names for the layers of one model family.

    Attributes:
        prefix: prefix of the encoder's variables.
        modules: path of our layer -> Google's name; `#` stands for the block number.
        whole: path of our variable -> Google's name, for names that do not follow from `modules`.
    """

    prefix: str
    modules: Mapping[str, str]
    whole: Mapping[str, LeafRule]


FAMILIES = {
    "bert": GoogleFamily(
        "bert/",
        {**_EMBEDDINGS, **_BLOCK, "pooler/dense": "pooler/dense", **_MLM},
        {**_pairs("nsp"), **_CLASSIFIERS},
    ),
    "albert": GoogleFamily(
        "bert/",
        {
            **_EMBEDDINGS,
            "embeddings/projection": "encoder/embedding_hidden_mapping_in",
            **{
                f"block_#/{ours}": f"encoder/transformer/group_#/inner_group_0/{theirs}"
                for ours, theirs in {
                    "attention/query": "attention_1/self/query",
                    "attention/key": "attention_1/self/key",
                    "attention/value": "attention_1/self/value",
                    "attention/output": "attention_1/output/dense",
                    "attention_layer_norm": "LayerNorm",
                    "feedforward/intermediate": "ffn_1/intermediate/dense",
                    "feedforward/output": "ffn_1/intermediate/output/dense",
                    "feedforward_layer_norm": "LayerNorm_1",
                }.items()
            },
            "pooler/dense": "pooler/dense",
            **_MLM,
        },
        {**_pairs("sop"), **_CLASSIFIERS},
    ),
    "electra": GoogleFamily(
        "electra/",
        {
            **_EMBEDDINGS,
            "embeddings/projection": "embeddings_project",
            **_BLOCK,
            "mlm/dense": "generator_predictions/dense",
            "mlm/layer_norm": "generator_predictions/LayerNorm",
            "generator/projection": "generator/embeddings_project",
            **{f"generator/{ours}": f"generator/{theirs}" for ours, theirs in _BLOCK.items()},
            "rtd/dense": "discriminator_predictions/dense",
            "rtd/output": "discriminator_predictions/dense_1",
        },
        {"mlm/bias": LeafRule("generator_predictions/output_bias")},
    ),
}

_TABLE, _PREFIXES = _EMBEDDINGS["embeddings/token"], {rows.prefix for rows in FAMILIES.values()}

# === Reading and writing ===
# The names are those of the code published with the papers: google-research/bert, albert, electra.

PREFIX = "bert_model.ckpt"
# Hugging Face took over these keys of Google's configs.
_SIZES = SIZES | {
    name: CONSTANTS[name]
    for name in ("num_segments", "activation", "dropout", "attention_dropout", "initializer_range")
}
_MORE = {
    "bert": {},
    "albert": {"embedding_size": "embedding_size", "num_unique_layers": "num_hidden_groups"},
    "electra": {"embedding_size": "embedding_size"},
}
# Google's "gelu" is the tanh approximation.
_ACTIVATIONS = {"gelu": "gelu_tanh", "relu": "relu", "tanh": "tanh"}
_ENCODED = "electra/encoder/layer_0/attention/self/query/kernel"
_GENERATED = "generator/encoder/layer_0/attention/self/query/kernel"
_REQUIRED = ("inner_group_num", "net_structure_type")  # values: `hugging_face_names.REQUIRED`
_OTHER_FORMAT = "Use the format hugging_face, which can store every model."


def is_one(directory: Path) -> bool:
    """Return whether a folder has a config or an index file of a TensorFlow 1 checkpoint."""
    return any(any(directory.glob(name)) for name in (*CONFIGS.values(), "*.index"))


@dataclasses.dataclass(frozen=True)
class GoogleFolder(Checkpoint):
    """A folder with a TensorFlow 1 checkpoint and its config.

    Attributes:
        directory: path of the folder.
        config_path: path of the config, such as `bert_config.json`.
        values: parsed config.
        choice: the checkpoint that is read, of perhaps several.
    """

    directory: Path
    config_path: Path
    values: dict[str, Any]
    choice: tf_checkpoint.Choice

    @classmethod
    def open(cls, directory: Path, *, name: str = "", averages: bool = False) -> GoogleFolder:
        """Read the config of a folder; `tf_checkpoint.find` describes the arguments.

        Raises:
            ArtifactError: if the folder has no config, no checkpoint, or several and no choice.
        """
        for file in CONFIGS.values():
            if (path := directory / file).is_file():
                choice = tf_checkpoint.find(directory, name, averages=averages)
                return cls(directory, path, file_io.read_object(path), choice)
        raise ArtifactError(
            f"{directory}: a TensorFlow checkpoint without a config. Put one of "
            f"{', '.join(CONFIGS.values())} beside it (ELECTRA was published without: write its "
            "sizes under the names that bert_config.json has, and embedding_size)."
        )

    @property
    def class_name(self) -> str:
        """Name of our class; the variables of the head show it."""
        with self.source() as source:
            return class_of(source.shapes)

    def source(self, *, verify: bool = False) -> tensors.Tensors:
        """Open the checkpoint."""
        del verify  # TensorFlow's reader compares checksums
        return unwrapped(self.choice.open(), _TABLE, _PREFIXES, "/")

    def read_config(self, shapes: Shapes, allow_missing: tuple[str, ...]) -> BertConfig:
        """Read the config. The variables show the family and whether there is a pooler."""
        pooler = has_pooler(shapes) or "pooler" in allow_missing
        return read_config(self.values, self.config_path, family_of(shapes), pooler=pooler)

    def saved_options(
        self, class_name: str, config: BertConfig, shapes: Shapes
    ) -> tuple[dict[str, Any], Path]:
        """Return the options that the variables show; see `options_of`."""
        return options_of(class_name, config.family, shapes), self.config_path

    def names(self, class_name: str, config: BertConfig, shapes: Shapes) -> NameMap:
        """Return the names of the family's variables."""
        return name_map(config.family, class_name, shapes)


def class_of(shapes: Shapes) -> str:
    """Return the name of our class for a checkpoint, by the variables of its head."""
    for name, variables in TOLD_BY:
        if variables <= shapes.keys():
            return name
    return ENCODER


def has_pooler(shapes: Shapes) -> bool:
    """Return whether the variables have a pooler."""
    return "bert/pooler/dense/kernel" in shapes


def options_of(class_name: str, family: str, shapes: Shapes) -> dict[str, Any]:
    """Return the constructor options of a task that follow from its variables and its family.

    These are `generator_size` of an ELECTRA, `loss` of a `Pretrainer` (ALBERT was pretrained with
    sentence order prediction, BERT with next sentence prediction), `num_classes` of a classifier.
    """
    options: dict[str, Any] = {}
    task = task_format(class_name)
    widths = [shapes.get(name, ())[:1] for name in (_GENERATED, _ENCODED)]
    if task.has_generator and all(width and width[0] for width in widths):
        options["generator_size"] = widths[0][0] / widths[1][0]
    if task.has_pair_loss:
        options["loss"] = "sop" if family == "albert" else "nsp"
    if task.is_text_classifier and len(shapes.get("output_weights", ())) == 2:
        options["num_classes"] = shapes["output_weights"][0]
    return options


def read_config(values: dict[str, Any], path: Path, family: str, *, pooler: bool) -> BertConfig:
    """Translate one of Google's configs, such as `bert_config.json`.

    Args:
        values: parsed file.
        path: path of the file, for messages.
        family: model family, which the file does not state.
        pooler: whether the checkpoint has a pooler, which the file does not state either.

    Raises:
        ArtifactError: if a value is missing or not supported.
    """
    hugging_face_names.require_known_values(values, path)
    keys = {**_SIZES, **_MORE[family]}
    file_io.refuse_unknown_keys(
        path, values, {*keys.values(), *_REQUIRED, *hugging_face_names.GOOGLE_IRRELEVANT}
    )
    if missing := sorted(set(keys.values()) - set(values)):
        raise ArtifactError(f"{path}: missing: {', '.join(missing)}. Add the values of the model.")
    ours = {name: values[theirs] for name, theirs in keys.items()}
    if str(ours["activation"]) not in _ACTIVATIONS:
        raise ArtifactError(
            f"{path}: not supported: hidden_act={ours['activation']!r}. Supported: "
            f"{', '.join(_ACTIVATIONS)}"
        )
    ours["activation"] = _ACTIVATIONS[ours["activation"]]
    try:
        return BertConfig.from_dict({**ours, "pooler": pooler, "family": family})
    except ValueError as error:
        raise ArtifactError(f"{path}: {error}") from error


def save(model: BertEncoder | Task, directory: Path) -> None:
    """Write a model as a TensorFlow 1 checkpoint `bert_model.ckpt` with its config.

    Raises:
        UsageError: if Google's code cannot represent this model.
        NumericError: if a weight is not finite. Nothing is written.
        ImportError: if TensorFlow is not installed.
    """
    class_name = type(model).__name__
    config = encoder_of(model).config
    values = _write_config(config, class_name)
    for name in ("activation", "layer_norm_epsilon") if task_format(class_name).is_mlm else ():
        if model.options[name] not in (None, getattr(config, name)):
            raise UsageError(
                f"The MLM head of Google's code has the encoder's {name}. Received: "
                f"{name}={model.options[name]!r}. {_OTHER_FORMAT}"
            )
    names = name_map(config.family, class_name, {})
    weights = plain_weights(model)
    if unknown := [weight.path for weight in weights if not names.knows(weight.path)]:
        raise UsageError(
            f"Google's {config.family} has no place for {', '.join(unknown)}, so a "
            f"{class_name} cannot be written as a TF1 checkpoint. {_OTHER_FORMAT}"
        )
    specs = names.tensor_specs(weights)
    streaming.check(specs)
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory, prefix=".tmp-") as folder:
        there = streaming.with_progress(specs, f"writing {directory}")
        tf_checkpoint.write(Path(folder, PREFIX), there)
        Path(folder, CONFIGS[config.family]).write_bytes(manifests.json_bytes(values))
        old = set(directory.glob(f"{PREFIX}.data-*"))
        # The index moves last: readers recognise a checkpoint by it, so that a broken-off save
        # leaves no half checkpoint.
        for path in sorted(Path(folder).iterdir(), key=lambda path: path.suffix == ".index"):
            path.replace(directory / path.name)
            old.discard(directory / path.name)
        for path in old:
            path.unlink()


def _write_config(config: BertConfig, class_name: str) -> dict[str, Any]:
    """Return a config in Google's format.

    Raises:
        UsageError: if the format cannot state every value of `config`.
    """
    if config.family not in FAMILIES:
        raise UsageError(
            f"There was no {config.family} in TF1: only {', '.join(FAMILIES)} can be written so. "
            f"{_OTHER_FORMAT}"
        )
    words = {ours: theirs for theirs, ours in _ACTIVATIONS.items()}
    keys = {**_SIZES, **_MORE[config.family]}
    values = {theirs: getattr(config, name) for name, theirs in keys.items()}
    values["hidden_act"] = words.get(config.activation)
    stated = {name: getattr(config, name) for name in (*keys, "family", "pooler")}
    is_whole = BertConfig.from_dict(stated) == config
    if values["hidden_act"] is None or not is_whole:
        raise UsageError(
            f"Google's code has no such {config.family} for a {class_name}: its gelu is the tanh "
            "approximation (activation='gelu_tanh'), its layer_norm_epsilon 1e-12, its positions "
            f"learned from 0 on. Received: {config}. {_OTHER_FORMAT}"
        )
    return values


def family_of(shapes: Shapes) -> str:
    """Return the model family of a checkpoint, by the names of its variables."""
    if any("/inner_group_0/" in name for name in shapes):
        return "albert"
    is_electra = any(name.startswith(("electra/", "generator/")) for name in shapes)
    return "electra" if is_electra else "bert"


def name_map(family: str, class_name: str, shapes: Shapes) -> NameMap:
    """Return the names of the variables of a family.

    In ELECTRA the encoder of a masked language model is the generator, which has its own prefix.

    Args:
        family: model family, a key of `FAMILIES`.
        class_name: name of our class.
        shapes: variables of a checkpoint to read; {} for a checkpoint to write.
    """
    rows, task = FAMILIES[family], task_format(class_name)
    is_generator = task.is_mlm
    if shapes:  # the checkpoint decides, because an encoder can be read from a generator too
        is_generator = not any(name.startswith(f"{rows.prefix}encoder/") for name in shapes)
    prefixes: Mapping[str, str] = {"": rows.prefix, **dict.fromkeys(HEADS, "")}
    if family == "electra" and is_generator:
        own = dict.fromkeys(("", "embeddings/projection"), "generator/")
        prefixes = {**prefixes, **own, "embeddings": rows.prefix}
    other = ("electra/encoder", "discriminator") if is_generator else ("generator",)
    if family != "electra" or task.has_generator:
        other = ()
    redundant = [name for name in shapes if name.startswith(other)]
    return NameMap(rows.modules, LEAVES, "/", rows.whole, prefixes, redundant)
