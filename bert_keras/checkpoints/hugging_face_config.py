"""Translation between a `BertConfig` and the values of a Hugging Face config.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from bert_keras.checkpoints import hugging_face_names
from bert_keras.checkpoints.hugging_face_family import (
    ABSENT,
    Family,
    nested,
    set_nested,
    stated_value,
)
from bert_keras.checkpoints.hugging_face_names import FAMILIES
from bert_keras.checkpoints.tensors import Tensors
from bert_keras.config import BertConfig
from bert_keras.config_checks import MOST
from bert_keras.errors import ArtifactError

# Hugging Face's activations -> ours. Of several names of one function the first is written.
_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
_SMALL = "a small BERT or DistilBERT"
_LONG = "ModernBERT, which reads texts of 8,192 tokens"
_NOT_TEXT_ALONE = "transformers: this model reads more than text"
# `model_type` of models that this package does not compute -> what to use instead.
_INSTEAD = {
    "neobert": "ModernBERT or EuroBERT, whose blocks are of the same kind",
    **dict.fromkeys(("mobilebert", "squeezebert", "nystromformer", "ibert"), _SMALL),
    **dict.fromkeys(("longformer", "big_bird", "reformer", "mra", "yoso"), _LONG),
    **dict.fromkeys(("convbert", "funnel", "fnet"), "ELECTRA of about the same size"),
    **dict.fromkeys(("luke", "xlnet", "bart", "mvp"), "RoBERTa"),
    **dict.fromkeys(("xmod", "xlm", "mbart", "canine"), "XLM-RoBERTa"),
    "flaubert": "CamemBERT, which is French too",
    "roc_bert": "a Chinese BERT or ERNIE",
    **dict.fromkeys(("layoutlm", "tapas", "modernvbert", "ultravbert", "neomme"), _NOT_TEXT_ALONE),
    "perceiver": _NOT_TEXT_ALONE,
    **dict.fromkeys(("esm", "esmc"), "transformers: this model reads proteins"),
}
# Words of `layer_types` for layers whose attention is local, and global.
_LOCAL, _GLOBAL = "sliding_attention", "full_attention"
_EVERY, _USUAL = "global_attn_every_n_layers", 3  # of so many layers one is global


def family_of(values: Mapping[str, Any], path: Path) -> str:
    """Return the model family that a config.json states.

    Raises:
        ArtifactError: if `model_type` is not known.
    """
    name = hugging_face_names.family_name(values)
    if name is not None:
        return name
    kinds = dict.fromkeys(kind for family in FAMILIES.values() for kind in family.model_types)
    known, kind = ", ".join(kinds), values.get("model_type")
    advice = f". Use {_INSTEAD[kind]}" if isinstance(kind, str) and kind in _INSTEAD else ""
    raise ArtifactError(
        f"{path}: only these can be opened: {known}. Received: model_type={kind!r:.100}{advice}"
    )


def completed(
    values: dict[str, Any], path: Path, open_tensors: Callable[[], Tensors]
) -> dict[str, Any]:
    """Return the values of a config.json, with those that it does not state but tensors show.

    Args:
        values: parsed config.json.
        path: path of the file, for messages.
        open_tensors: function that opens the weights; it is called only if they can show a value.

    Raises:
        ArtifactError: if the model is not known, or has no weights.
    """
    shown_by = FAMILIES[family_of(values, path)].shown_by
    if not any(set(shown) - set(values) for shown in shown_by.values()):
        return values
    with open_tensors() as source:
        names = [f".{name}" for name in source.shapes]  # wrappers put more before a name
    for tensor, shown in shown_by.items():
        if any(name.endswith(f".{tensor}") for name in names):
            values = {**shown, **values}
    return values


def read_config(values: Mapping[str, Any], path: Path, *, pooler: bool) -> BertConfig:
    """Translate a Hugging Face config.

    Args:
        values: parsed `config.json`.
        path: path of the file, for messages.
        pooler: whether the checkpoint has a pooler, which the config does not state.

    Raises:
        ArtifactError: if the model is not known, or a value is missing or not supported.
    """
    name = family_of(values, path)
    family = FAMILIES[name]
    if family.earlier is not None:
        values = family.earlier(values)
    hugging_face_names.require_known_values(values, path, family)
    _require(values, family, path)
    keys = {**family.sizes, **family.constants}
    stated = {theirs: stated_value(values, theirs, family) for theirs in set(keys.values())}
    # A default of None stands for the value of another key, as for `num_key_value_heads`.
    counts = {
        theirs
        for ours, theirs in keys.items()
        if ours in MOST and family.defaults.get(theirs, ABSENT) is not None
    }
    absent = {key for key in counts if key in values and values[key] is None}
    absent |= {key for key in family.sizes.values() if stated[key] is ABSENT}
    if absent:
        named = (f"{key} (null)" if key in values else key for key in sorted(absent))
        raise ArtifactError(f"{path}: missing: {', '.join(named)}. Add the values of the model.")
    ours = {ours: stated[theirs] for ours, theirs in keys.items() if stated[theirs] is not ABSENT}
    for key, conversion in family.conversions.items():
        ours[key] = conversion.read(ours[key])
    ours |= _joint_values(values, family, path)
    ours["activation"] = activation(ours["activation"], f"{path}: {keys['activation']}")
    ours = {**ours, "pooler": pooler, **family.fixed, "family": name}
    if family.has_layer_types:
        ours |= _layer_pattern(values, family, ours["num_layers"], path)
    if offset := _position_offset(values, family, path):
        ours["position_offset"] = offset
        if type(ours["max_positions"]) is int:  # else `BertConfig` refuses it
            ours["max_positions"] -= offset
    has_segments = family.optional_segments or "num_segments" in family.fixed
    if not ours.get("num_segments", 1) and not has_segments:
        raise ArtifactError(
            f"{path}: not supported: type_vocab_size=0. A {name} needs one segment at least."
        )
    if family.needs_projection and ours["embedding_size"] == ours["hidden_size"]:
        raise ArtifactError(
            f"{path}: not supported: embedding_size=hidden_size={ours['hidden_size']}, where "
            f"the library's {name} has a projection that changes no size. Supported: two "
            "different sizes"
        )
    try:
        config = BertConfig.from_dict(ours)
    except ValueError as error:
        raise ArtifactError(f"{path}: {error}") from error
    for key, same in family.same_as.items():
        if values.get(key) not in (None, getattr(config, same)):
            raise ArtifactError(
                f"{path}: not supported: {key}={values[key]!r:.100}. "
                f"Supported: {getattr(config, same)}, the encoder's {same}"
            )
    if family.head_size and values.get(family.head_size) not in (None, config.head_size):
        raise ArtifactError(
            f"{path}: not supported: {family.head_size}={values[family.head_size]!r:.100}. "
            f"Supported: {config.head_size}, which is {family.sizes['hidden_size']} / "
            f"{family.sizes['num_heads']}"
        )
    return config


def _joint_values(values: Mapping[str, Any], family: Family, path: Path) -> dict[str, Any]:
    """Return our values that several of their values state together.

    Raises:
        ArtifactError: if this package does not compute what they state.
    """
    found: dict[str, Any] = {}
    for name, conversion in family.joint.items():
        stated = [stated_value(values, key, family) for key in conversion.keys]
        found[name] = conversion.read(*stated)
        if found[name] is None:
            pairs = zip(conversion.keys, stated, strict=True)
            received = ", ".join(f"{key}={value!r:.100}" for key, value in pairs)
            raise ArtifactError(
                f"{path}: not supported: {received}. Supported: {conversion.supported}"
            )
    return found


def _require(values: Mapping[str, Any], family: Family, path: Path) -> None:
    """Raise `ArtifactError` for a value that this package does not compute."""
    for key, accepted in family.required.items():
        for name in (key, *family.aliases.get(key, ())):
            found = nested(values, name)
            if found is None or any(found is value or found == value for value in accepted):
                continue
            advice = f". {family.advice[key]}" if key in family.advice else ""
            raise ArtifactError(
                f"{path}: not supported: {name}={found!r:.200}. "
                f"Supported: {', '.join(map(repr, accepted))}{advice}"
            )


def _layer_pattern(
    values: Mapping[str, Any], family: Family, num_layers: Any, path: Path
) -> dict[str, Any]:
    """Return our values for the layers that are local: every n-th layer is global.

    Raises:
        ArtifactError: if the layers follow no such pattern.
    """
    kinds, every = values.get("layer_types"), values.get(_EVERY)
    if kinds is None:
        # UltraBERT, whose first layer is local, does not read the number.
        usual = _USUAL if every is None or family.first_global else every
        return {"global_every": usual, "global_offset": family.first_global}
    is_list = isinstance(kinds, list) and all(kind in (_LOCAL, _GLOBAL) for kind in kinds)
    if is_list and len(kinds) == num_layers:
        places = [layer for layer, kind in enumerate(kinds) if kind == _GLOBAL]
        steps = [after - before for before, after in pairwise(places)]
        # A short list shows less than a whole period: then the number that the file states, or the
        # usual one, is meant.
        stated: list[int] = [every] if type(every) is int else []
        for step in (*stated, _USUAL, *steps[:1], num_layers + 1):
            offset = places[0] if places else max(family.first_global, num_layers)
            if offset < step and places == list(range(offset, num_layers, step)):
                return {"global_every": step, "global_offset": offset}
    raise ArtifactError(
        f"{path}: not supported: layer_types={kinds!r:.200}. Supported: a list of one for each "
        f"layer, of which every n-th is {_GLOBAL!r} and the others are {_LOCAL!r}"
    )


def _position_offset(values: Mapping[str, Any], family: Family, path: Path) -> int:
    """Return the number of unused rows before the first position in the position table."""
    if family.position_offset is not None:
        return family.position_offset
    pad_token_id = values.get("pad_token_id")
    pad_token_id = family.pad_token_id if pad_token_id is None else pad_token_id
    if type(pad_token_id) is not int:
        raise ArtifactError(
            f"{path}: pad_token_id must be an integer. Received: {pad_token_id!r:.100}"
        )
    return pad_token_id + 1


def activation(theirs: Any, what: str) -> str:
    """Return our name of one of Hugging Face's activations.

    Args:
        theirs: Hugging Face's name.
        what: the file and its key, for the message.

    Raises:
        ArtifactError: if we have no such activation.
    """
    if not isinstance(theirs, str) or theirs not in _ACTIVATIONS:
        raise ArtifactError(
            f"{what}: not supported: {theirs!r}. Supported: {', '.join(_ACTIVATIONS)}"
        )
    return _ACTIVATIONS[theirs]


def config_values(config: BertConfig, class_name: str) -> dict[str, Any]:
    """Return the config.json of an encoder in the names of its own family.

    Args:
        config: config of the encoder.
        class_name: name of our class, for `architectures`.
    """
    family = FAMILIES[config.family]
    values: dict[str, Any] = {}
    for ours, theirs in {**family.sizes, **family.constants}.items():
        value = getattr(config, ours)
        if ours in family.conversions:
            value = family.conversions[ours].write(value)
        if ours == "activation":
            words = {ours: theirs for theirs, ours in reversed(_ACTIVATIONS.items())}
            value = words[value]
        set_nested(values, theirs, value)
    for name, conversion in family.joint.items():
        for key, value in conversion.write(getattr(config, name)).items():
            set_nested(values, key, value)
    if "rope_scaling" in values:  # beside it, the library reads only the earlier key of the base
        values["rope_theta"] = values.pop("rope_parameters")["rope_theta"]
    values |= family.selected_by
    for key, accepted in family.required.items():
        first, _, rest = key.partition("/")
        if rest and first in values:  # such as the kind of rotary positions
            set_nested(values, key, accepted[0])
    if family.has_layer_types:
        values["layer_types"] = [
            _LOCAL if config.is_local(layer) else _GLOBAL for layer in range(config.num_layers)
        ]
        values[_EVERY] = config.global_every
    # The library makes no table without a row of this number.
    is_row = family.pad_token_id < config.vocab_size
    values["pad_token_id"] = family.pad_token_id if is_row else 0
    if family.position_offset is None:
        values["pad_token_id"] = config.position_offset - 1
    if family.position_offset != 0:
        values["max_position_embeddings"] += config.position_offset
    classes = {"architectures": [family.classes.get(class_name)]}
    return {**classes, "model_type": family.model_types[0], **values}


def round_trips(config: BertConfig, class_name: str) -> bool:
    """Return whether the config.json of an encoder in its family's names reads as the same."""
    try:
        values = config_values(config, class_name)
        return read_config(values, Path(), pooler=config.pooler) == config
    except ArtifactError:
        return False
