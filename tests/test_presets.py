"""Presets: sizes of the published models, names, and handles of the hub."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bert_keras import (
    PRESETS,
    BertConfig,
    BertEncoder,
    MaskedLM,
    Predictor,
    Pretrainer,
    SentencePairs,
    SequenceClassifier,
    Tokenizer,
    load_checkpoint,
    presets,
)
from bert_keras.checkpoints.manifest import CONFIG
from bert_keras.errors import ArtifactError
from bert_keras.models import Task
from bert_keras.presets import HANDLES
from bert_keras.training import finetune_seed
from bert_keras.training.finetune_recipe import FinetuneRecipe
from bert_keras.training.pretrain_recipe import PretrainRecipe
from bert_keras.training.pretrain_setup import build_task
from bert_keras.training.recipe_base import rules_of
from tests import contracts, hub
from tests.contracts import TINY
from tests.models import every_model


def test_cannot_be_changed():
    with pytest.raises(TypeError):
        PRESETS["mine"] = BertConfig(vocab_size=3)  # pyright: ignore[reportIndexIssue]


# === Handles: paths, names of presets, and the cache of the hub


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of an offline hub cache; the working directory is another, empty folder."""
    hub.offline_cache(tmp_path / "cache", monkeypatch)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "cache"


def test_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert presets.resolve_handle("~/model", ()) == tmp_path / "model"
    assert presets.resolve_handle(tmp_path / "model", ()) == tmp_path / "model"
    with pytest.raises(ArtifactError, match="The handle is empty"):
        BertEncoder.from_preset("")
    with pytest.raises(ArtifactError, match="no folder can have this name: File name too long"):
        BertEncoder.from_preset("x" * 5000)


def test_a_checkpoint_of_several_in_a_folder(tmp_path: Path) -> None:
    """A prefix of TensorFlow's files stands for their folder, so that the tokenizer is found."""
    (tmp_path / "model.ckpt-20.index").touch()
    for name in ("model.ckpt-20", "model.ckpt-20.index"):
        assert presets.tensorflow_prefix(tmp_path / name) == "model.ckpt-20"
        assert presets.resolve_handle(tmp_path / name, ()) == tmp_path
    for name in ("model.ckpt-2", "", "hf://a/b", "model.ckpt-20.data-00000-of-00001"):
        assert presets.tensorflow_prefix(tmp_path / name) == ""
    (tmp_path / "model.ckpt-20").mkdir()
    assert presets.tensorflow_prefix(tmp_path / "model.ckpt-20") == ""


def test_a_repository_in_the_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_DISABLE_TELEMETRY", raising=False)
    folder = presets.resolve_handle("hf://someone/tiny", ["config.json"])
    assert os.environ["HF_HUB_DISABLE_TELEMETRY"] == "1"
    assert folder == cache / "models--someone--tiny" / "snapshots" / ("0" * 40)
    for seed, revision in enumerate(("", "@v2")):
        encoder = BertEncoder.from_preset(f"hf://someone/tiny{revision}")
        contracts.assert_same_weights(encoder, hub.published(seed).encoder)
    assert Tokenizer.from_preset("hf://someone/tiny").vocab_size == 50


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("handle", [hub.NAME, Path(hub.NAME)])
def test_a_name_stands_for_its_published_checkpoint(
    handle: str | Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Encoders, tasks, tokenizers, predictors and `load_checkpoint` accept a preset name."""
    expected = hub.published()
    contracts.assert_same_weights(BertEncoder.from_preset(handle), expected.encoder)
    opened = load_checkpoint(handle)
    assert isinstance(opened, Pretrainer)
    contracts.assert_same_weights(opened, expected)
    masked_lm = MaskedLM.from_preset(handle, allow_unused=("nsp",))
    found, weights = contracts.weights(masked_lm), contracts.weights(expected)
    assert all(values.tobytes() == weights[path].tobytes() for path, values in found.items())
    assert Tokenizer.from_preset(handle).vocab_size == 50
    predictor = Predictor.from_preset(handle)
    assert len(predictor.fill_mask(["w1 [MASK]"], top_k=1)[0][0]) == 1
    assert capsys.readouterr().out == ""
    classifier = SequenceClassifier.from_preset(handle, labels=["no", "yes"])
    contracts.assert_same_weights(classifier.encoder, expected.encoder)
    printed = capsys.readouterr().out
    assert "has no head of a SequenceClassifier: a new one is made" in printed
    assert printed.count("\n") == 1


TASKS = list(every_model.classes_below(Task))


@pytest.mark.parametrize("class_name", TASKS)
def test_every_task_opens_by_a_name(class_name: str, cache: Path) -> None:
    """A preset name opens every task with the weights of the repository, including the head."""
    task = contracts.as_trained(every_model.MODELS[every_model.BY_CLASS[class_name]]())
    shutil.rmtree(hub.snapshot(cache))
    task.save_to_preset(hub.snapshot(cache))
    contracts.assert_same_weights(type(task).from_preset(hub.NAME), task)


# === Recipes ===


def _encoder(handle: str, cache: Path) -> None:
    recipe = FinetuneRecipe(task="text_classification", encoder=handle)
    contracts.assert_same_weights(finetune_seed.open_encoder(recipe), hub.published().encoder)


def _teacher(handle: str, cache: Path) -> None:
    """Check the teacher of a classifier, and a sentence encoder as the teacher of text pairs."""
    for task_name, make, teacher in (
        ("text_classification", lambda encoder: SequenceClassifier(encoder, 3), "classifier"),
        ("sentence_similarity", SentencePairs, "sentences"),
    ):
        published = contracts.as_trained(every_model.MODELS[teacher](), seed=5)
        for folder in cache.glob(f"models--*/snapshots/{'0' * 40}"):
            shutil.rmtree(folder)
            published.save_to_preset(folder)
            Tokenizer(hub.WORDS).save_to_preset(folder)
        recipe = FinetuneRecipe(task=task_name, encoder=handle, teacher=handle, max_length=8)
        student = make(BertEncoder(every_model.TINY))
        distiller = finetune_seed.distiller_of(recipe, student, Tokenizer(hub.WORDS))
        contracts.assert_same_weights(distiller.teacher, published)


def _init_checkpoint(handle: str, cache: Path) -> None:
    recipe = PretrainRecipe(corpus="demo", steps=50, init_checkpoint=handle, sequence_length=8)
    contracts.assert_same_weights(build_task(recipe, len(hub.WORDS)), hub.published())


# Recipe key -> a check of the weights that it loads. Every key that takes a checkpoint must be
# here.
KEYS: dict[str, Callable[[str, Path], None]] = {
    "encoder": _encoder,
    "init_checkpoint": _init_checkpoint,
    "teacher": _teacher,
}
_OPENS = re.compile(r"(?:from_preset|open_checkpoint|load_checkpoint)\(\s*recipe\.(\w+)")


def test_every_key_that_takes_a_checkpoint_is_here() -> None:
    """`KEYS` has every recipe key whose value the code opens as a checkpoint."""
    folder = Path(finetune_seed.__file__).parent
    opened = {
        key
        for path in folder.rglob("*.py")
        for key in _OPENS.findall(path.read_text(encoding="utf-8"))
    }
    described = {
        field.name
        for recipe in (PretrainRecipe, FinetuneRecipe)
        for field, rule in rules_of(recipe)
        if rule.meaning.startswith("checkpoint ")
    }
    assert opened == described == KEYS.keys()


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("handle", [hub.NAME, "hf://someone/tiny"])
def test_a_key_of_a_recipe_takes_the_weights_of_a_handle(
    key: str, handle: str, cache: Path
) -> None:
    KEYS[key](handle, cache)


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("kind", [str, Path])
def test_a_local_folder_of_that_name_wins(kind: type) -> None:
    hub.fill(Path(hub.NAME), seed=3)
    contracts.assert_same_weights(BertEncoder.from_preset(kind(hub.NAME)), hub.published(3).encoder)
    contracts.assert_same_weights(load_checkpoint(kind(hub.NAME)), hub.published(3))
    config = BertEncoder.from_preset(kind(hub.NAME), load_weights=False).config
    assert config == TINY
    (Path(hub.NAME) / CONFIG).unlink()
    with pytest.raises(ArtifactError, match=r"config\.json: no such file"):
        BertEncoder.from_preset(kind(hub.NAME))


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(
    "open_it",
    [
        BertEncoder.from_preset,
        MaskedLM.from_preset,
        load_checkpoint,
        Tokenizer.from_preset,
        Predictor.from_preset,
        lambda name: SequenceClassifier.from_preset(name, num_classes=2),
    ],
)
@pytest.mark.parametrize("name", ["bert_base_uncased", "albert_base_v2"])
def test_without_network_and_cache_one_message_says_both_ways(open_it: Any, name: str) -> None:
    with pytest.raises(ArtifactError) as error:
        open_it(name)
    for part in (
        f"{name}, which stands for {HANDLES[name]}, is not in the cache",
        "With a network, run this again.",
        f"hf download {HANDLES[name].removeprefix('hf://')} --local-dir FOLDER",
        f"https://huggingface.co/{HANDLES[name].removeprefix('hf://')}/tree/main",
        f"BertEncoder(bert_keras.PRESETS[{name!r}])",
    ):
        assert part in str(error.value)


@pytest.fixture
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every download from the hub fail the test."""
    library = pytest.importorskip("huggingface_hub")

    def asked(*_: Any, **__: Any) -> None:
        raise AssertionError("the hub was asked")

    monkeypatch.setattr(library, "snapshot_download", asked)


@pytest.mark.usefixtures("no_hub")
def test_random_weights_are_asked_for_in_words(tmp_path: Path) -> None:
    encoder = BertEncoder.from_preset(hub.NAME, load_weights=False, attentions=True, name="tiny")
    assert (encoder.name, encoder.config) == ("tiny", PRESETS[hub.NAME])
    assert "attentions" in encoder.output
    task = Pretrainer.from_preset(hub.NAME, load_weights=False, loss="sop", dtype="mixed_bfloat16")
    assert task.options == {"loss": "sop"}
    assert task.dtype_policy.name == task.encoder.dtype_policy.name == "mixed_bfloat16"
    assert BertEncoder(PRESETS[hub.NAME]).config == encoder.config
    assert type(load_checkpoint(hub.NAME, load_weights=False)) is BertEncoder
    # A folder or an unknown name must not cause a download either.
    hub.fill(tmp_path / "folder")
    load_checkpoint(tmp_path / "folder")
    for open_it in (BertEncoder.from_preset, load_checkpoint, Tokenizer.from_preset):
        with pytest.raises(ArtifactError, match="such as 'bert_tiny_uncased'"):
            open_it("bert_tiny_uncasd")


@pytest.mark.usefixtures("no_hub")
def test_a_new_head_without_weights_is_that_of_the_family(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"hidden_size": 8, "num_heads": 2, "intermediate_size": 8, "num_layers": 1}
    activations = {
        "bert_base_cased": None,
        "roberta_base": "tanh",
        "distilbert_base_cased": "relu",
    }
    small = {name: PRESETS[name].replace(**sizes, vocab_size=9) for name in activations}
    monkeypatch.setattr("bert_keras.checkpoints.folders.PRESETS", small)
    for name, activation in activations.items():
        task = SequenceClassifier.from_preset(name, load_weights=False, labels=["a", "b", "c"])
        assert task.options["hidden_activation"] == activation
        assert task.options["num_classes"] == 3


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("handle", ["hf://someone/else", "hf://someone/tiny@v3"])
def test_without_a_network_it_says_what_to_do(handle: str) -> None:
    with pytest.raises(ArtifactError) as error:
        BertEncoder.from_preset(handle)
    page = "https://huggingface.co/someone/"
    for part in (handle, page, "hf download someone/", "name it instead"):
        assert part in str(error.value)
    assert "PRESETS" not in str(error.value)


@pytest.mark.parametrize(
    "handle",
    [
        *("hf://../../x", "hf://a", "hf://a/b/c", "hf:///etc/passwd", "hf://a/b@../../x"),
        *("file:///etc/passwd", "https://example.com/x", "hf://a/b?x=1", "hf://a/b\0"),
    ],
)
def test_other_schemes_and_places_are_refused(handle: str) -> None:
    with pytest.raises(ArtifactError, match="expected a folder, or hf://organisation/name"):
        BertEncoder.from_preset(handle)
