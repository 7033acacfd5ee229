"""Reader of sentence-transformers folders, and of the predictor settings in any folder."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bert_keras import features, file_io, presets
from bert_keras.checkpoints import sentence_transformers_modules as keys
from bert_keras.checkpoints import sentence_transformers_modules as modules
from bert_keras.checkpoints.sentence_transformers_modules import max_length
from bert_keras.errors import ArtifactError
from bert_keras.inference.base import FILE, PredictorConfig, read_length
from bert_keras.tokenizers.files import MODULES, SENTENCE_CONFIGS, transformer_folder, within

CONFIG = "config_sentence_transformers.json"
_FIRST = (keys.TRANSFORMER, keys.POOLING)
_MOST_MODULES = 32


class Module(NamedTuple):
    """A row of modules.json.

    Attributes:
        kind: name of its class, such as "Pooling".
        folder: folder of its files.
    """

    kind: str
    folder: Path


@dataclasses.dataclass(frozen=True)
class SentenceFolder:
    """The content of a folder of sentence-transformers.

    Attributes:
        class_name: name of our class.
        options: options of that class.
        size: size of the token vectors that the pooling states; None for a CrossEncoder.
        dense: folders of the dense layers, in order.
        path: path of modules.json, for messages.
    """

    class_name: str
    options: dict[str, Any]
    size: int | None
    dense: tuple[Path, ...]
    path: Path

    def check_size(self, hidden_size: int) -> None:
        """Compare the size of the token vectors with the hidden size of the encoder.

        Raises:
            ArtifactError: if they differ.
        """
        if self.size is not None and self.size != hidden_size:
            raise ArtifactError(
                f"{self.path}: the pooling expects token vectors of size {self.size}, but the "
                f"encoder gives {hidden_size}. Take all files from one save."
            )


def is_one(directory: Path) -> bool:
    """Return whether a folder has the modules.json of sentence-transformers."""
    return (directory / MODULES).is_file()


def has_settings(directory: Path) -> bool:
    """Return whether a folder has settings of sentence-transformers, such as a maximum length."""
    names = (MODULES, *SENTENCE_CONFIGS)
    return any((directory / name).is_file() for name in names) or is_pair_scorer(directory)


def is_pair_scorer(directory: Path) -> bool:
    """Return whether a folder holds a CrossEncoder, of any version of sentence-transformers."""
    if is_one(directory):
        path = directory / CONFIG
        values = file_io.read_object(path) if path.is_file() else {}
        return values.get("model_type") == keys.SCORES
    path = directory / "config.json"
    values = file_io.read_object(path) if path.is_file() else {}
    return any(values.get(key) is not None for key in keys.PAIR_KEYS)


def read(directory: Path) -> SentenceFolder:
    """Read all JSON files of a sentence-transformers folder.

    Raises:
        ArtifactError: if a file is damaged, or has a setting that changes the outputs and is not
            supported here.
    """
    path = directory / MODULES
    values = _config(directory)
    rows = _modules(directory)
    kinds = tuple(row.kind for row in rows)
    model = values.get("model_type", keys.VECTORS)
    is_scores = model == keys.SCORES
    modules.warn_of_others(directory / CONFIG, values, model)
    middle = kinds[2:-1] if kinds[-1:] == (keys.NORMALIZE,) else kinds[2:]
    is_known = kinds[:2] == _FIRST and set(middle) <= {keys.DENSE, keys.DROPOUT}
    if kinds != _FIRST[:1] if is_scores else not is_known:
        expected = (
            f"{keys.TRANSFORMER} alone"
            if is_scores
            else f"{', '.join(_FIRST)}, any number of {keys.DENSE}, and perhaps {keys.NORMALIZE}"
        )
        raise ArtifactError(
            f"{path}: of a {model} only {expected} can be opened. Received: {', '.join(kinds)}. "
            f"{modules.OF_ENCODERS}"
        )
    modules.check_transformer(directory, model)
    options = _prompts(directory / CONFIG, values)
    if is_scores:
        options |= _pair_activation(directory, values, is_cross_encoder=True)
        return SentenceFolder("SequenceClassifier", options, None, (), path)
    size, pooling = modules.read_pooling(rows[1].folder / "config.json")
    options |= {**pooling, "normalize": kinds[-1] == keys.NORMALIZE}
    options |= _vector_options(directory / CONFIG, values)
    names = options["pooling"]
    width = size * (1 if isinstance(names, str) else len(names))
    dense, folders = [], []
    for module in rows[2:]:
        if module.kind == keys.DENSE:
            dense.append(modules.read_dense(module.folder / "config.json", width))
            width = dense[-1]["units"]
            folders.append(module.folder)
        elif module.kind == keys.DROPOUT:
            warnings.warn(
                f"{module.folder}: a {keys.DROPOUT} drops in training alone. It changes no vector, "
                "and is not kept.",
                stacklevel=2,
            )
        else:
            modules.check_names(module.folder / "config.json", keys.NORMALIZE)
    if dense:
        options["dense"] = dense
    return SentenceFolder("SentenceEncoder", options, size, tuple(folders), path)


def _config(directory: Path) -> dict[str, Any]:
    """Read config_sentence_transformers.json; {} if there is none."""
    path = directory / CONFIG
    values = file_io.read_object(path) if path.is_file() else {}
    model_type = values.get("model_type", keys.VECTORS)
    modules.refuse_others(path, model_type)
    if model_type not in tuple(modules.TASKS):
        raise ArtifactError(
            f"{path}: only {', '.join(modules.TASKS)} can be opened. Received: {model_type=}"
        )
    return values


def _modules(directory: Path) -> list[Module]:
    """Read modules.json.

    Raises:
        ArtifactError: if it is damaged, or names a module of another package.
    """
    path = directory / MODULES
    rows = file_io.read_json(path)
    is_list = isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows)
    names = [row.get(key) for row in rows for key in ("type", "path")] if is_list else [None]
    if not all(isinstance(name, str) for name in names):
        raise ArtifactError(
            f"{path}: not a list of modules, each with its type and path. Received: {rows!r:.200}"
        )
    if len(rows) > _MOST_MODULES:
        raise ArtifactError(
            f"{path}: expected {_MOST_MODULES} modules at most. Received: {len(rows)}"
        )
    known_modules = []
    for row in rows:
        modules.warn_of_others(path, row, MODULES)
        for part, model in keys.PACKAGES_OF_OTHERS.items():
            if part in row["type"].split("."):
                modules.refuse_others(path, model)
        package, _, kind = row["type"].rpartition(".")
        if package.partition(".")[0] != keys.PACKAGE:
            raise ArtifactError(
                f"{path}: {row['type']} is code of its own, which is never run. Only modules of "
                f"{keys.PACKAGE} can be opened. {modules.OF_ENCODERS}"
            )
        known_modules.append(Module(kind, within(directory, row["path"], path)))
    return known_modules


def _prompts(path: Path, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options `prompts` and `default_prompt_name`, those that a config states."""
    stated, default = values.get("prompts"), values.get("default_prompt_name")
    prompts = {} if stated is None else stated
    if not isinstance(prompts, dict) or not all(
        text is None or isinstance(text, str) for text in prompts.values()
    ):
        raise ArtifactError(
            f"{path}: prompts must be an object of names and texts. Received: {stated!r:.200}"
        )
    options: dict[str, Any] = {}
    if prompts:
        options["prompts"] = {name: text or "" for name, text in prompts.items()}
    if default is not None:
        if not isinstance(default, str) or default not in prompts:
            raise ArtifactError(
                f"{path}: default_prompt_name must be one of {', '.join(prompts) or 'no prompts'}. "
                f"Received: {default!r}"
            )
        options["default_prompt_name"] = default
    return options


def _vector_options(path: Path, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options `similarity` and `truncate_dim`, those that a config states."""
    options: dict[str, Any] = {}
    similarity = values.get("similarity_fn_name")
    if similarity not in (None, *features.SIMILARITIES):
        raise ArtifactError(
            f"{path}: similarity_fn_name must be one of {', '.join(features.SIMILARITIES)}. "
            f"Received: {similarity!r}"
        )
    if similarity not in (None, features.COSINE):
        options["similarity"] = similarity
    length = values.get("truncate_dim")
    if length is not None:
        if type(length) is not int or length < 1:
            raise ArtifactError(
                f"{path}: truncate_dim must be a whole number from 1. Received: {length!r}"
            )
        options["truncate_dim"] = length
    return options


def pair_options(directory: Path) -> dict[str, Any]:
    """Read the activation and the prompts of a CrossEncoder.

    From version 6 on, config_sentence_transformers.json states the activation. Earlier versions
    state it in config.json, under one of two keys. If it is missing, the default of
    sentence-transformers applies.

    Returns:
        Options of a `SequenceClassifier`; {} for a folder that holds no CrossEncoder.

    Raises:
        ArtifactError: if a file has a setting that changes the outputs and is not supported here.
    """
    path = directory / CONFIG
    config = file_io.read_object(path) if path.is_file() else {}
    is_cross_encoder = config.get("model_type") == keys.SCORES
    if is_cross_encoder and is_one(directory):
        return read(directory).options
    config = config if is_cross_encoder else {}
    return _pair_activation(directory, config, is_cross_encoder=is_cross_encoder)


def _pair_activation(
    directory: Path, config: Mapping[str, Any], *, is_cross_encoder: bool
) -> dict[str, Any]:
    """Return the option `activation` of a CrossEncoder.

    Args:
        directory: its folder.
        config: parsed config_sentence_transformers.json.
        is_cross_encoder: whether that file states that the model is a CrossEncoder. If not, and no
            file states an activation, the result is {}.
    """
    path = transformer_folder(directory) / "config.json"
    values = file_io.read_object(path)
    newer, oldest = (values.get(key) for key in keys.PAIR_KEYS)
    places = (
        (directory / CONFIG, config.get("activation_fn")),
        (path, newer.get("activation_fn") if isinstance(newer, dict) else None),
        (path, oldest),
    )
    where, activation = next((place for place in places if place[1] is not None), (path, None))
    if isinstance(activation, str) and activation.startswith("torch."):
        return {"activation": modules.activation(where, activation)}
    if activation is not None:
        warnings.warn(
            f"{where}: activation_fn={activation!r} is code of its own, which is never run: the "
            "usual one takes its place, as in sentence-transformers.",
            stacklevel=2,
        )
    if activation is None and not is_cross_encoder:
        return {}
    labels = values.get("id2label")
    count = len(labels) if isinstance(labels, dict) else values.get("num_labels", 2)
    return {"activation": "sigmoid" if count == 1 else "linear"}


def check_same(directory: Path, options: Mapping[str, Any], path: Path) -> None:
    """Compare the files of sentence-transformers with the manifest in a folder of ours.

    Args:
        directory: the folder.
        options: options in the manifest.
        path: path of the manifest, for the message.

    Raises:
        ArtifactError: if they contradict each other.
    """
    theirs = read(directory)
    differ = [
        name
        for name in (*_VECTOR_DEFAULTS, "activation")
        if _comparable_option(theirs.options, name) != _comparable_option(options, name)
    ]
    if differ:
        first, second = (
            [_comparable_option(each, name) for name in differ]
            for each in (options, theirs.options)
        )
        raise ArtifactError(
            f"{path} and {theirs.path.name} with its files contradict each other in "
            f"{', '.join(differ)}: {first!r:.300} and {second!r:.300}. Remove bert_keras.json to "
            "open the folder as sentence-transformers does."
        )


_VECTOR_DEFAULTS = {
    "pooling": None,
    "normalize": None,
    "include_prompt": True,
    "dense": [],
    "truncate_dim": None,
    "similarity": features.COSINE,
    "prompts": {},
    "default_prompt_name": None,
}


def _comparable_option(options: Mapping[str, Any], name: str) -> Any:
    """Return an option or its default, in a form that can be compared."""
    value = options.get(name, _VECTOR_DEFAULTS.get(name))
    # sentence-transformers adds prompts with an empty text when it writes a folder.
    return {key: text for key, text in value.items() if text} if name == "prompts" else value


# === Settings of a predictor ===


_SENTENCES = SENTENCE_CONFIGS[0]  # the file of sentence-transformers that this package writes
_FILES = (
    *(FILE, MODULES, *SENTENCE_CONFIGS, CONFIG),
    *("config.json", "tokenizer_config.json"),
)
_THEIR_LENGTH = "max_seq_length"


def read_predictor_config(handle: str | Path) -> PredictorConfig:
    """Read the predictor settings of a folder, or the defaults if it has none.

    Without our own file, they come from the files of sentence-transformers.

    Args:
        handle: folder or `hf://` handle; see `BertEncoder.from_preset`.

    Raises:
        ArtifactError: if a file is damaged, or two files state different lengths.
    """
    folder = presets.resolve_handle(handle, _FILES)
    path = folder / FILE
    if not path.is_file():
        if not has_settings(folder):
            return PredictorConfig()
        place, name, length = max_length(folder)
        pairs = is_pair_scorer(folder)
        return PredictorConfig(read_length(place, {name: length}, name), pairs=pairs)
    config = PredictorConfig.read(path)
    if has_settings(folder):
        place, name, theirs = max_length(folder)
        is_said = place.name in SENTENCE_CONFIGS and None not in (config.max_length, theirs)
        if is_said and config.max_length != theirs:
            raise ArtifactError(
                f"{path}: contradicts {place.name}: max_length is {config.max_length} here, {name} "
                f"is {theirs!r:.100} there. Write the same number into both."
            )
    return config


def write_predictor_config(folder: Path, config: PredictorConfig) -> None:
    """Write the predictor settings, and the maximum length also for sentence-transformers."""
    theirs = folder / _SENTENCES
    if config.max_length is not None and theirs.is_file():
        length = {_THEIR_LENGTH: config.max_length}
        file_io.write_json(theirs, file_io.read_object(theirs) | length)
    config.write(folder / FILE)
