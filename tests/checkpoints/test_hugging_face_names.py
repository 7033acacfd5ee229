"""Every family and head: the outputs of transformers, and the same weights after writing back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

from bert_keras import (
    BertEncoder,
    MaskedLM,
    Pretrainer,
    SequenceClassifier,
    load_checkpoint,
    save_checkpoint,
)
from bert_keras.checkpoints import (
    google_tf1,
    hugging_face,
    hugging_face_config,
    hugging_face_names,
)
from bert_keras.checkpoints import keras_hub as tasks
from bert_keras.checkpoints.hugging_face_names import FAMILIES
from bert_keras.checkpoints.keras_hub_names import BACKBONES, read_config_of
from bert_keras.checkpoints.manifest import CONFIG, MANIFEST, WEIGHTS
from bert_keras.errors import ArtifactError
from bert_keras.tokenizers import files
from tests import contracts, reference
from tests.contracts import TINY

_LABELS = {"id2label": {0: "bad", 1: "fair", 2: "good"}}
# The first families run each time with every class; later ones with two, and the others are slow.
_FIRST = ("bert", "roberta", "distilbert", "albert", "electra")
_QUICK = ("MaskedLM", "SequenceClassifier")
_CASES = [
    pytest.param(*case, marks=[] if case[0] in _FIRST or case[1] in _QUICK else [pytest.mark.slow])
    for case in (
        (family, ours, theirs)
        for family in FAMILIES
        for ours, theirs in FAMILIES[family].classes.items()
        # transformers has no such class: sentence-transformers adds the pooling to an encoder. A
        # ranker is a classifier in its folder; test_text_ranking.py opens it.
        if ours not in ("SentenceEncoder", "TextRanker")
    )
]


def _theirs(transformers: Any, family: str, class_name: str) -> Any:
    """Return a small transformers model of a class, with labels if the class has them."""
    ending = class_name.removeprefix(reference.HUGGING_FACE[family][0])
    labels = _LABELS if ending in ("ForSequenceClassification", "ForTokenClassification") else {}
    return reference.hugging_face_model(transformers, ending, family, **labels)


@pytest.mark.parametrize(("family", "ours", "theirs"), _CASES)
def test_there_and_back(
    family: str, ours: str, theirs: str, transformers: Any, tmp_path: Path
) -> None:
    model = _theirs(transformers, family, theirs)
    model.save_pretrained(tmp_path / "theirs")
    opened = load_checkpoint(tmp_path / "theirs")
    assert type(opened).__name__ == ours
    if "labels" in opened.options:
        assert opened.options["labels"] == ["bad", "fair", "good"]
    reference.same_as_hugging_face(opened, model, contracts.inputs_of(opened))

    opened.save_to_preset(tmp_path / "back")
    before, after = (load_file(tmp_path / name / WEIGHTS) for name in ("theirs", "back"))
    assert after.keys() == before.keys()
    for name, values in before.items():
        assert after[name].tobytes() == values.tobytes(), name
    config = json.loads((tmp_path / "back" / "config.json").read_text())
    assert config["architectures"] == [theirs]
    again = getattr(transformers, theirs).from_pretrained(tmp_path / "back")
    assert again.config.id2label == model.config.id2label
    for name, values in model.state_dict().items():
        assert again.state_dict()[name].equal(values), name
    contracts.assert_same_weights(load_checkpoint(tmp_path / "back"), opened)


def test_sentence_order_of_albert_is_read_as_such(transformers: Any, tmp_path: Path) -> None:
    _theirs(transformers, "albert", "AlbertForPreTraining").save_pretrained(tmp_path)
    opened = Pretrainer.from_preset(tmp_path)
    assert opened.options == {"loss": "sop"}


# Settings that only some families have: groups, offsets, fixed positions, heads of other forms.
_SETTINGS: dict[str, dict[str, Any]] = {
    "bert": {"type_vocab_size": 3, "hidden_act": "relu"},
    "roberta": {"type_vocab_size": 2, "hidden_act": "relu", "pad_token_id": 4},
    "distilbert": {"sinusoidal_pos_embds": True, "activation": "relu"},
    "albert": {"num_hidden_layers": 4, "num_hidden_groups": 2, "hidden_act": "gelu"},
    "electra": {"embedding_size": 8, "hidden_act": "gelu_new"},
    "mpnet": {"hidden_act": "relu"},
    "modernbert": {"norm_bias": True, "mlp_bias": True, "num_hidden_layers": 4},
    "nomic_bert": {"type_vocab_size": 3, "hidden_act": "gelu"},
    "gte": {"type_vocab_size": 0, "hidden_act": "silu"},
    "jina_embeddings_v3": {"type_vocab_size": 2, "hidden_act": "relu"},
    "eurobert": {"mlp_bias": True, "attention_bias": True, "tie_word_embeddings": True},
    "ultrabert": {"mlp_bias": True, "tie_word_embeddings": True, "num_hidden_layers": 5},
    "deberta": {"position_biased_input": True, "type_vocab_size": 2, "max_relative_positions": 12},
    "deberta_lm_head": {"relative_attention": False, "pos_att_type": None, "hidden_act": "relu"},
    "deberta_v2": {"share_att_key": False, "norm_rel_ebd": "none", "type_vocab_size": 3},
    "deberta_v2_lm_head": {"position_buckets": -1, "max_relative_positions": 5},
    "ernie": {"use_task_id": False, "type_vocab_size": 4, "hidden_act": "relu"},
    "roformer": {"rotary_value": True, "embedding_size": 8, "hidden_act": "relu"},
    "rembert": {"output_embedding_size": 6, "type_vocab_size": 1},
    "megatron_bert": {"type_vocab_size": 3, "hidden_act": "relu"},
    "roberta_prelayernorm": {"type_vocab_size": 2, "pad_token_id": 4},
    "xlm_roberta_xl": {"hidden_act": "relu", "pad_token_id": 2},
}


@pytest.mark.parametrize(
    "family",
    [name if name in _FIRST else pytest.param(name, marks=pytest.mark.slow) for name in _SETTINGS],
)
def test_groups_offsets_and_fixed_positions(family: str, transformers: Any, tmp_path: Path) -> None:
    """Settings that only some families have are kept."""
    changes = _SETTINGS[family]
    model = reference.hugging_face_model(transformers, "ForMaskedLM", family, **changes)
    model.save_pretrained(tmp_path / "theirs")
    opened = MaskedLM.from_preset(tmp_path / "theirs")
    reference.same_as_hugging_face(opened, model, contracts.inputs_of(opened))
    opened.save_to_preset(tmp_path / "back")
    again = getattr(transformers, type(model).__name__).from_pretrained(tmp_path / "back")
    for key, value in changes.items():
        assert getattr(again.config, key) == value
    contracts.assert_same_weights(load_checkpoint(tmp_path / "back"), opened)


def test_large_models_of_several_files_and_old_pickles(transformers: Any, tmp_path: Path) -> None:
    import torch

    model = _theirs(transformers, "bert", "BertForMaskedLM")
    model.save_pretrained(tmp_path / "shards", max_shard_size="2KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 2
    expected = load_checkpoint(tmp_path / "shards")
    reference.same_as_hugging_face(expected, model, contracts.inputs_of(expected))
    (tmp_path / "pickle").mkdir()
    shutil.copy(tmp_path / "shards" / "config.json", tmp_path / "pickle")
    torch.save(model.state_dict(), tmp_path / "pickle" / "pytorch_model.bin")
    opened = load_checkpoint(tmp_path / "pickle", allow_pickle=True)
    contracts.assert_same_weights(opened, expected)
    with pytest.raises(ArtifactError, match="a pickle, which can run code"):
        load_checkpoint(tmp_path / "pickle")


# === Each key that a library writes is honoured, listed as irrelevant with a reason, or named in an
# error or warning. ===


_HERE = Path("config.json")
# Another value for a key, if its type alone does not suggest one.
_OTHERS: dict[str, Any] = {
    "model_type": "gpt2",
    "architectures": ["BertModel"],
    "id2label": {"0": "a", "1": "b"},
    "problem_type": "regression",
    "classifier_dropout": 0.3,
    "sinusoidal_pos_embds": True,
    "embedding_size": 16,
    "num_hidden_groups": 2,
    "summary_type": "mean",
    "summary_activation": "relu",
    "max_relative_positions": 7,
    "pos_att_type": ["c2p"],
}
# Values without which other keys are not read.
_SWITCHES = {"ernie": {"use_task_id": True}}


def _edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


# === Hugging Face's config.json ===


def _classes_of_theirs(transformers: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each model type of the families and all keys that its config class writes."""
    for family in FAMILIES.values():
        for kind in family.model_types:
            if kind not in transformers.CONFIG_MAPPING:
                continue  # a spelling of code in the folders, such as "new"
            config = transformers.CONFIG_MAPPING[kind](**_SWITCHES.get(kind, {}))
            yield kind, {**config.to_dict(), **json.loads(config.to_json_string(use_diff=False))}


def _other(key: str, value: Any) -> Any:
    """Return another valid value for a config key."""
    if key in _OTHERS:
        return _OTHERS[key]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value * 2 or 1
    if isinstance(value, float):
        return value / 2 or 0.05
    if isinstance(value, dict):  # the kind of rotary positions stays
        return {
            name: part if isinstance(part, str) else _other(name, part)
            for name, part in value.items()
        }
    if isinstance(value, list):
        return value[1:] + value[:1]
    return "relu" if isinstance(value, str) else value


def _read(values: dict[str, Any]) -> list[Any]:
    """Return all that is read from a config: the encoder's config and the options of each task."""
    family = FAMILIES[hugging_face_config.family_of(values, _HERE)]
    has_pooler = "pooler/dense" in family.encoder
    config = hugging_face_config.read_config(values, _HERE, pooler=has_pooler)
    told: list[Any] = [config]
    for ours, theirs in family.classes.items():
        named = {"architectures": [theirs]} if "Classif" in theirs else {}
        told.append(hugging_face.read_head_options(ours, values | named, config, _HERE))
    return told


def test_every_key_of_transformers_is_known_and_what_is_honoured_is_read(transformers: Any) -> None:
    ignored = []
    for kind, written in _classes_of_theirs(transformers):
        family = FAMILIES[hugging_face_config.family_of(written, _HERE)]
        unknown = sorted(set(written) - hugging_face_names.known_to(family))
        assert not unknown, f"{kind}: give {unknown} a row, or a reason in `config_keys`"
        first = _read(written)
        for key in written:
            is_offset = family.position_offset is None and key == "pad_token_id"
            if key in {*hugging_face_names.IRRELEVANT, *family.irrelevant} and not is_offset:
                assert _read(written | {key: "another"}) == first, f"{kind}: {key} is read"
                continue
            # `architectures` chooses the class, and `label2id` repeats `id2label`.
            if key in ("architectures", "label2id"):
                continue
            try:
                changed = {"label2id": None, key: _other(key, written[key])}
                if _read(written | changed) == first:
                    ignored.append(f"{kind}: {key}")
            except ArtifactError:
                pass
    assert not ignored


def test_every_reason_is_a_sentence_and_every_key_has_one_row() -> None:
    for table in (hugging_face_names.IRRELEVANT, hugging_face_names.KERAS_LAYER, files.IRRELEVANT):
        assert all(len(reason.split()) > 2 for reason in table.values())
    assert not set(hugging_face_names.IRRELEVANT) & set(hugging_face_names.REQUIRED)


@pytest.mark.parametrize("key", hugging_face_names.REQUIRED)
def test_a_value_that_changes_the_answers_is_refused(key: str) -> None:
    values = hugging_face.write_config(TINY, "BertEncoder", {})
    for accepted in hugging_face_names.REQUIRED[key]:
        hugging_face_config.read_config(values | {key: accepted}, _HERE, pooler=True)
    for other in ("x", 7, [1], {"a": 1}):
        with pytest.raises(ArtifactError, match=f"config.json: not supported: {key}="):
            hugging_face_config.read_config(values | {key: other}, _HERE, pooler=True)


@pytest.fixture
def theirs(saved: Path, tmp_path: Path) -> Path:
    """Return a folder as Hugging Face writes it, without a manifest."""
    folder = Path(shutil.copytree(saved, tmp_path / "theirs"))
    (folder / MANIFEST).unlink()
    return folder


def test_unknown_keys_are_named_in_one_warning(theirs: Path, saved: Path) -> None:
    _edit(theirs / CONFIG, colour="red", rope_theta=1e4)
    message = r"config\.json: unknown keys are ignored: 'colour', 'rope_theta'\."
    with pytest.warns(UserWarning, match=message) as warned:
        opened = load_checkpoint(theirs)
    assert len(warned) == 1
    contracts.assert_same_weights(opened, load_checkpoint(saved))


def _refusal(folder: Path) -> list[str]:
    """Return the start of the refusal in a list, or [] if the folder opens."""
    try:
        BertEncoder.from_preset(folder)
    except ArtifactError as error:
        return [str(error).partition(": ")[2].partition(",")[0]]
    return []


@pytest.mark.parametrize("model_type", ["bert", "my_bert"])
def test_code_of_the_folders_own_is_warned_of_whatever_the_family(
    model_type: str, theirs: Path
) -> None:
    _edit(theirs / CONFIG, auto_map={"AutoModel": "modeling.My"}, model_type=model_type)
    refused = []
    with pytest.warns(UserWarning, match="auto_map names code .* never run"):
        refused += _refusal(theirs)
    assert refused == ([] if model_type == "bert" else ["only these can be opened: bert"])


def test_names_of_labels_that_contradict_each_other(tmp_path: Path) -> None:
    task = SequenceClassifier(BertEncoder(TINY), 2, labels=["no", "yes"])
    task.save_to_preset(tmp_path)
    (tmp_path / MANIFEST).unlink()
    assert load_checkpoint(tmp_path).options["labels"] == ["no", "yes"]
    for key, value in {"label2id": {"no": 1, "yes": 0}, "num_labels": 3}.items():
        before = (tmp_path / CONFIG).read_text()
        _edit(tmp_path / CONFIG, **{key: value})
        with pytest.warns(UserWarning, match=f"contradicts its id2label, which counts: .*{key}"):
            assert load_checkpoint(tmp_path).options["labels"] == ["no", "yes"]
        (tmp_path / CONFIG).write_text(before)


# === Folders of this package ===


def _different(value: Any) -> Any:
    """Return a value that differs from the given one."""
    if isinstance(value, dict | list):
        return ["another"]
    return "another" if isinstance(value, str) or value is None else value + 1


def test_a_config_that_contradicts_the_manifest_is_refused(tmp_path: Path) -> None:
    """A config.json that differs from the manifest in any key is refused.

    Other libraries read config.json alone, and would open another model.
    """
    task = SequenceClassifier(BertEncoder(TINY), 2, labels=["no", "yes"])
    task.save_to_preset(tmp_path)
    written = json.loads((tmp_path / CONFIG).read_text())
    assert len(written) > 15
    for key, value in written.items():
        (tmp_path / CONFIG).write_text(json.dumps(written | {key: _different(value)}))
        with pytest.raises(ArtifactError, match=f"contradicts {MANIFEST} in {key}: {key} is"):
            load_checkpoint(tmp_path)
    (tmp_path / CONFIG).write_text(json.dumps(written | {"transformers_version": "5"}))
    assert load_checkpoint(tmp_path).options == task.options
    (tmp_path / CONFIG).write_text(json.dumps(written | {"is_decoder": True}))
    with pytest.raises(ArtifactError, match="not supported: is_decoder=True"):
        load_checkpoint(tmp_path)


def test_a_config_without_a_key_opens_alike_or_is_refused(tmp_path: Path) -> None:
    """A config.json without a key is refused if the default of transformers is another value."""
    transformers = pytest.importorskip("transformers")
    unusual = TINY.replace(layer_norm_epsilon=1e-5, num_segments=3, activation="relu")
    SequenceClassifier(BertEncoder(unusual), 2, labels=["no", "yes"]).save_to_preset(tmp_path)
    written = json.loads((tmp_path / CONFIG).read_text())
    theirs = json.loads(transformers.BertConfig().to_json_string(use_diff=False))
    harmless = {
        "architectures": "chosen by the caller",
        "label2id": "tells what id2label tells",
        "problem_type": "chooses a loss for training",
        "position_embedding_type": "transformers 5 has no other",
    }
    refused = 0
    for key in written:
        values = {each: value for each, value in written.items() if each != key}
        (tmp_path / CONFIG).write_text(json.dumps(values))
        if key in harmless or theirs.get(key) == written[key]:
            if key != "model_type":  # A config without the model type is always refused.
                load_checkpoint(tmp_path)
            continue
        with pytest.raises(ArtifactError, match=f"missing: {key}, where .* Add .* {key}="):
            load_checkpoint(tmp_path)
        refused += 1
    assert refused > 8


@pytest.mark.parametrize(
    "model",
    [
        lambda: BertEncoder(TINY.replace(num_unique_layers=1)),
        lambda: MaskedLM(BertEncoder(TINY), activation="relu"),
        lambda: BertEncoder(TINY.replace(family="roberta", num_segments=1, position_offset=2)),
    ],
)
def test_what_we_write_does_not_contradict_itself(model: Any, tmp_path: Path) -> None:
    model().save_to_preset(tmp_path)
    load_checkpoint(tmp_path)


# === KerasHub's files ===


def _keras_hub_models(keras_hub: Any) -> Iterator[tuple[str, str | None, dict[str, Any]]]:
    """Yield the backbone, the kind of task and the config of each KerasHub model."""
    for name, backbone in BACKBONES.items():
        model = reference.keras_hub_model(keras_hub, name)
        yield name, None, model.get_config()
        for ending, head in backbone.heads.items():
            kind = getattr(keras_hub.models, name.removesuffix("Backbone") + ending, None)
            if kind is not None:
                classes = {"num_classes": 3} if head.class_name == "SequenceClassifier" else {}
                yield name, ending, kind(backbone=model, **classes).get_config()


def test_every_key_of_keras_hub_is_known(keras_hub: Any) -> None:
    count = 0
    for name, ending, values in _keras_hub_models(keras_hub):
        count += 1
        backbone = BACKBONES[name]
        if ending is None:
            config = read_config_of(backbone, values, name)
            with pytest.raises(ArtifactError, match=f"{name}: unknown keys: 'colour'"):
                read_config_of(backbone, values | {"colour": 1}, name)
        else:
            head = backbone.heads[ending]
            tasks.read_options(head, values, config, name)
            with pytest.raises(ArtifactError, match=f"{name}: unknown keys: 'colour'"):
                tasks.read_options(head, values | {"colour": 1}, config, name)
    assert count > 12


def test_the_files_of_keras_hub(keras_hub: Any, tmp_path: Path) -> None:
    """Unknown keys and contradictions in each JSON file of KerasHub are refused."""
    backbone = reference.keras_hub_model(keras_hub, "BertBackbone")
    task = keras_hub.models.BertTextClassifier(backbone=backbone, num_classes=3)
    task.save_to_preset(str(tmp_path / "whole"))
    load_checkpoint(tmp_path / "whole")
    refused: dict[tuple[str, str], tuple[Any, str]] = {
        (CONFIG, "colour"): (1, "config.json: unknown keys: 'colour'"),
        (CONFIG, "class_name"): ("Lambda", "config.json: contradicts itself: class_name='Lambda'"),
        (tasks.TASK, "colour"): (1, "task.json: unknown keys: 'colour'"),
        (tasks.TASK, "class_name"): ("Lambda", "task.json: contradicts itself: class_name"),
    }
    for (file, key), (value, message) in refused.items():
        folder = Path(shutil.copytree(tmp_path / "whole", tmp_path / f"{file}-{key}"))
        _edit(folder / file, **{key: value})
        with pytest.raises(ArtifactError, match=message):
            load_checkpoint(folder)
    folder = tmp_path / "whole"
    values = json.loads((folder / tasks.TASK).read_text())
    values["config"]["backbone"]["config"]["dropout"] = 0.5
    (folder / tasks.TASK).write_text(json.dumps(values))
    with pytest.raises(ArtifactError, match=r"task.json: contradicts config.json: dropout is 0.5"):
        load_checkpoint(folder)
    (folder / tasks.TASK).unlink()
    _edit(folder / tasks.METADATA, colour=1)
    load_checkpoint(folder)  # metadata.json is read only beside task.json.


# === Google's bert_config.json ===

# Further keys of the published files: the first BERT, multilingual BERT and ALBERT.
_GOOGLE = {
    "bert": "directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers "
    "pooler_size_per_head pooler_type",
    "albert": "down_scale_factor gap_size num_memory_blocks net_structure_type inner_group_num",
    "electra": "",
}


@pytest.mark.parametrize("family", _GOOGLE)
def test_keys_of_google(family: str) -> None:
    sizes = {"albert": {"embedding_size": 4, "num_unique_layers": 1}, "bert": {}, "electra": {}}
    config = TINY.replace(activation="gelu_tanh", family=family, **sizes[family])
    config = config.replace(pooler=family != "electra")
    values = google_tf1._write_config(config, "BertEncoder")
    more = dict.fromkeys(_GOOGLE[family].split(), 0) | {"inner_group_num": 1}
    read = google_tf1.read_config(values | more, _HERE, family, pooler=config.pooler)
    assert read == config
    # Only forks of Google's code write these keys.
    for key in ("use_relative_position", "ln_type", "layer_norm_eps"):
        with pytest.raises(ArtifactError, match=f"unknown keys: '{key}'"):
            google_tf1.read_config(values | {key: 0}, _HERE, family, pooler=config.pooler)


def test_a_folder_that_we_write_for_them_has_known_keys(tmp_path: Path) -> None:
    model = BertEncoder(TINY.replace(activation="gelu_tanh"))
    save_checkpoint(model, tmp_path, format="keras_hub")
    contracts.assert_same_weights(load_checkpoint(tmp_path), model)
