"""Absurd sizes in files are refused with one message, before a layer is built."""

from __future__ import annotations

import functools
import inspect
import json
import math
import operator
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bert_keras import (
    BertEncoder,
    ElectraPretrainer,
    MaskedLM,
    SentenceEncoder,
    SentencePairs,
    SequenceClassifier,
    TokenClassifier,
    Tokenizer,
    load_checkpoint,
    save_checkpoint,
)
from bert_keras.checkpoint_report import print_checkpoint
from bert_keras.checkpoints import google_tf1, hugging_face_names, open_checkpoint
from bert_keras.checkpoints.keras_hub_names import BACKBONES
from bert_keras.checkpoints.manifest import CONFIG, MANIFEST, WEIGHTS
from bert_keras.config import BertConfig
from bert_keras.config_checks import MOST
from bert_keras.errors import ArtifactError
from bert_keras.file_io import LARGE, SMALL
from bert_keras.models import Task
from bert_keras.models.encoder_layers import EncoderLayers
from bert_keras.tokenizers.vocabulary import SPECIAL_TOKENS
from tests import families
from tests.contracts import TINY

_COUNTS: tuple[Any, ...] = (
    *(None, [8], {"a": 8}, "8", "", 2.5, True, -1, 100_000_000, 10**30, 10**400),
    *(math.nan, math.inf, [[]] * 100),
)
_NUMBERS: tuple[Any, ...] = ([0.1], {"a": 0.1}, "0.1", True, -1, 2, 10**400, math.nan, math.inf)
_FAMILIES = {name: families.config_of(name) for name in hugging_face_names.FAMILIES}


@pytest.fixture
def no_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each attempt to build an encoder fail the test."""

    def built(*_: Any) -> None:
        raise AssertionError("a layer was built")

    monkeypatch.setattr(EncoderLayers, "of", built)


def _refusal(open_it: Callable[[], object]) -> str:
    """Return the message of the refusal, which must be short."""
    with pytest.raises(ArtifactError) as error:
        open_it()
    assert len(str(error.value)) < 1000
    return str(error.value)


def _refused(open_it: Callable[[], object]) -> bool:
    """Return True if opening raises ArtifactError, False if it succeeds."""
    try:
        open_it()
    except ArtifactError:
        return True
    return False


def _with(path: Path, values: dict[str, Any], key: str, value: Any) -> None:
    path.write_text(json.dumps({**values, key: value}))


def test_every_count_has_a_limit() -> None:
    assert set(MOST) == {
        name for name, kind in BertConfig.__annotations__.items() if kind in ("int", "int | None")
    }


@pytest.mark.parametrize("family", _FAMILIES)
@pytest.mark.parametrize("layout", ["theirs", "ours"])
def test_sizes_in_json(family: str, layout: str, tmp_path: Path, request: Any) -> None:
    """Each number in config.json or in the manifest is tested with each kind of wrong value."""
    BertEncoder(_FAMILIES[family]).save_to_preset(tmp_path)
    request.getfixturevalue("no_layers")
    if layout == "theirs":
        (tmp_path / MANIFEST).unlink()
        path, rows = tmp_path / CONFIG, hugging_face_names.FAMILIES[family]
        values = json.loads(path.read_text())
        keys = {theirs: ours for ours, theirs in {**rows.sizes, **rows.constants}.items()}

        def write(key: str, value: Any) -> None:
            _with(path, values, key, value)
    else:
        (tmp_path / CONFIG).unlink()
        path = tmp_path / MANIFEST
        manifest = json.loads(path.read_text())
        values = manifest["config"]
        keys = {name: name for name in values}

        def write(key: str, value: Any) -> None:
            path.write_text(json.dumps({**manifest, "config": {**values, key: value}}))

    count = 0
    for key, ours in keys.items():
        is_number = type(values.get(key)) is float
        for value in _COUNTS if ours in MOST else _NUMBERS if is_number else ():
            if _is_right(family, ours, value, layout):
                continue
            write(key, value)
            assert path.name in _refusal(lambda: load_checkpoint(tmp_path)) or value is None
            count += 1
    assert count > 100


def _is_right(family: str, ours: str, value: Any, layout: str) -> bool:
    """Return whether a value is a right one: another base, or None for what the file has anyway."""
    config, rows = _FAMILIES[family], hugging_face_names.FAMILIES[family]
    key = {**rows.sizes, **rows.constants}.get(ours, "")
    if ours == "position_buckets" and layout == "theirs":
        return type(value) is int and value < 1  # no buckets
    may_be_none = layout == "ours" or (key in rows.defaults and rows.defaults[key] is None)
    if value is None and may_be_none:
        given = config.to_dict() | {ours: None}
        try:
            return ours == "window" or BertConfig.from_dict(given) == config
        except ValueError:
            return False
    return "rotary_base" in ours and value == 2


def test_sizes_that_are_plausible_one_by_one() -> None:
    """Sizes that are plausible one by one are refused if the model would be too large.

    A config that is read without weights has no tensors that could contradict it.
    """
    wide = {"intermediate_size": 2**18, "hidden_size": 2**14, "num_layers": 120}
    for sizes in ({"vocab_size": 2**24, "hidden_size": 2**16}, wide):
        with pytest.raises(ValueError, match="more than 1,099,511,627,776 weights"):
            TINY.replace(**sizes)


def test_sizes_are_compared_without_weights_too(tmp_path: Path, request: Any) -> None:
    BertEncoder(TINY).save_to_preset(tmp_path)
    request.getfixturevalue("no_layers")
    (tmp_path / MANIFEST).unlink()
    _with(tmp_path / CONFIG, json.loads((tmp_path / CONFIG).read_text()), "vocab_size", 2**24)
    for open_it in (
        lambda: BertEncoder.from_preset(tmp_path, load_weights=False),
        lambda: print_checkpoint(open_checkpoint(tmp_path)),
    ):
        assert "expected [16777216, 8]" in _refusal(open_it)


@pytest.mark.parametrize("family", google_tf1.FAMILIES)
def test_sizes_in_a_config_of_google(family: str) -> None:
    """Wrong sizes in Google's bert_config.json are refused.

    TF1 checkpoints and SavedModels of TensorFlow Hub have this file.
    """
    config = _FAMILIES[family].replace(activation="gelu_tanh")
    values = google_tf1._write_config(config, "BertEncoder")
    path = Path("bert_config.json")
    for ours, key in {**google_tf1._SIZES, **google_tf1._MORE[family]}.items():
        is_number = type(values[key]) is float
        for value in _COUNTS if ours in MOST else _NUMBERS if is_number else ():
            follows = ours in ("embedding_size", "num_unique_layers")
            if value is None and follows:
                continue
            changed = json.loads(json.dumps({**values, key: value}))
            with pytest.raises(ArtifactError, match=path.name):
                google_tf1.read_config(changed, path, family, pooler=config.pooler)


@pytest.mark.parametrize(
    ("name", "family"),
    [(name, family) for name, backbone in BACKBONES.items() for family in backbone.families],
)
def test_sizes_in_a_preset_of_keras_hub(
    name: str, family: str, tmp_path: Path, request: Any
) -> None:
    config = _FAMILIES[family].replace(**BACKBONES[name].fixed)
    save_checkpoint(BertEncoder(config), tmp_path, format="keras_hub")
    request.getfixturevalue("no_layers")
    path = tmp_path / CONFIG
    written = json.loads(path.read_text())
    for ours, key in BACKBONES[name].keys.items():
        for value in _COUNTS if ours in MOST else _NUMBERS:
            if value is None and ours in ("embedding_size", "num_unique_layers"):
                continue
            path.write_text(json.dumps({**written, "config": {**written["config"], key: value}}))
            assert CONFIG in _refusal(lambda: load_checkpoint(tmp_path))
    changed = {**written["config"], BACKBONES[name].keys["vocab_size"]: 2**24}
    path.write_text(json.dumps({**written, "config": changed}))
    assert "expected [16777216, " in _refusal(
        lambda: BertEncoder.from_preset(tmp_path, load_weights=False)
    )


_TASKS = [
    lambda: SequenceClassifier(BertEncoder(TINY), 3),
    lambda: TokenClassifier(BertEncoder(TINY), 3),
    lambda: MaskedLM(BertEncoder(TINY)),
    lambda: MaskedLM(BertEncoder(TINY), hidden_sizes=[16, 8]),
    lambda: SentencePairs(BertEncoder(TINY), loss="classification", num_classes=2),
    lambda: SentenceEncoder(
        BertEncoder(TINY),
        truncate_dim=4,
        dense=[{"units": 8}, {"units": 6, "residual": True}],
    ),
    lambda: ElectraPretrainer(BertEncoder(TINY.replace(pooler=False, family="electra"))),
]


@pytest.mark.parametrize("make", _TASKS)
@pytest.mark.parametrize("load_weights", [True, False])
def test_options_of_a_head(make: Callable[[], Any], load_weights: bool, tmp_path: Path) -> None:
    """Wrong numbers in the options of a task in the manifest are refused."""
    task = make()
    task.save_to_preset(tmp_path)
    (tmp_path / CONFIG).unlink()
    path = tmp_path / MANIFEST
    manifest = json.loads(path.read_text())
    for place in _numbers_in(manifest["options"]):
        for value in _COUNTS:
            options = json.loads(json.dumps(manifest["options"]))
            functools.reduce(operator.getitem, place[:-1], options)[place[-1]] = value
            if place == ("num_classes",):
                options["labels"] = None
            path.write_text(json.dumps({**manifest, "options": options}))
            refused = _refused(lambda: load_checkpoint(tmp_path, load_weights=load_weights))
            is_count = {*place} & {"num_classes", "units", "truncate_dim", "hidden_sizes"}
            assert refused or (not is_count and isinstance(value, int | float)) or value is None


def _numbers_in(values: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of keys to each number."""
    if isinstance(values, dict | list):
        items = values.items() if isinstance(values, dict) else enumerate(values)
        return [found for key, value in items for found in _numbers_in(value, (*place, key))]
    is_number = isinstance(values, int | float) and not isinstance(values, bool)
    return [place] if is_number else []


def test_every_task_with_numbers_is_tried() -> None:
    tried = {type(make()) for make in _TASKS}
    for task_class in Task.__subclasses__():
        counts = {"num_classes", "num_labels", "dense", "truncate_dim"}
        if counts & inspect.signature(task_class.__init__).parameters.keys():
            assert task_class in tried, f"{task_class.__name__}: add it to _TASKS"


@pytest.mark.parametrize("load_weights", [True, False])
def test_more_dense_layers_than_a_model_has(load_weights: bool, tmp_path: Path) -> None:
    SentenceEncoder(BertEncoder(TINY), dense=[{"units": 8}]).save_to_preset(tmp_path)
    path = tmp_path / MANIFEST
    manifest = json.loads(path.read_text())
    for options, message in (
        ({"dense": [{"units": 8}] * 100_000}, "8 layers at most"),
        ({"dense": [{"units": 2**20}]}, "16,384 units"),
        ({"pooling": ["mean"] * 100_000}, "16 of them at most"),
        ({"dense": [{"units": 2**14}]}, "but the tensors of" if load_weights else ""),
    ):
        changed = {**manifest, "options": {**manifest["options"], **options}}
        path.write_text(json.dumps(changed))
        for name in (CONFIG, "modules.json"):  # They would contradict the changed manifest.
            (tmp_path / name).unlink(missing_ok=True)
        if message:
            refusal = _refusal(lambda: load_checkpoint(tmp_path, load_weights=load_weights))
            assert message in refusal
            assert len(refusal) < 1000


def test_more_modules_than_a_model_has(tmp_path: Path) -> None:
    SentenceEncoder(BertEncoder(TINY), dense=[{"units": 8}]).save_to_preset(tmp_path)
    (tmp_path / MANIFEST).unlink()
    path = tmp_path / "modules.json"
    rows = json.loads(path.read_text())
    dense = next(row for row in rows if row["type"].endswith("Dense"))
    path.write_text(json.dumps([*rows, *[dense] * 50_000]))
    assert f"32 modules at most. Received: {len(rows) + 50_000}" in _refusal(
        lambda: load_checkpoint(tmp_path)
    )
    path.write_text(json.dumps(rows))
    config = tmp_path / dense["path"] / CONFIG
    for units in (10**9, 10**400, None, "8", 0, -1):
        config.write_text(json.dumps({**json.loads(config.read_text()), "out_features": units}))
        assert "out_features from 1 to 16,384" in _refusal(lambda: load_checkpoint(tmp_path))


# === Sizes of files ===

_JSON = ("config.json", MANIFEST, "tokenizer_config.json", "special_tokens_map.json")
_VOCABULARIES = ("tokenizer.json", "vocab.txt")


@pytest.mark.parametrize("name", [*_JSON, *_VOCABULARIES])
def test_a_file_that_is_too_large(name: str, tmp_path: Path) -> None:
    """A file that is too large is refused by its size, before it is read or parsed."""
    BertEncoder(TINY).save_to_preset(tmp_path)
    Tokenizer(SPECIAL_TOKENS).save_to_preset(tmp_path)
    for other in ("tokenizer.json",) if name == "vocab.txt" else ():
        (tmp_path / other).unlink()
    most = SMALL if name in _JSON else LARGE
    with (tmp_path / name).open("r+b") as file:
        # The system fills the file with zeros.
        file.truncate(10**8 if name in _JSON else LARGE + 1)
    opener = load_checkpoint if name in (CONFIG, MANIFEST) else Tokenizer.from_preset
    tracemalloc.start()
    try:
        message = _refusal(lambda: opener(tmp_path))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert f"{name}: larger than any such file of a checkpoint, at most {most:,} bytes" in message
    assert peak < 1.5 * most + 2**21


def test_a_header_that_is_too_large(tmp_path: Path) -> None:
    BertEncoder(TINY).save_to_preset(tmp_path)
    (tmp_path / MANIFEST).unlink()
    content = (tmp_path / WEIGHTS).read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = content[8 : 8 + length] + b" " * SMALL
    content = len(header).to_bytes(8, "little") + header + content[8 + length :]
    (tmp_path / WEIGHTS).write_bytes(content)
    assert f"a header of at most {SMALL:,} bytes" in _refusal(lambda: load_checkpoint(tmp_path))
