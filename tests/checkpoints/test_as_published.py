"""Folders as the most used models of the families after BERT are published."""

from __future__ import annotations

import copy
import io
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from rich.console import Console
from safetensors.numpy import load_file, save_file

from bert_keras import (
    PRESETS,
    BertEncoder,
    SentenceEncoder,
    SequenceClassifier,
    Tokenizer,
    features,
    load_checkpoint,
)
from bert_keras.checkpoint_report import print_checkpoint
from bert_keras.checkpoints import open_checkpoint
from bert_keras.checkpoints.hugging_face_config import read_config, round_trips
from bert_keras.checkpoints.hugging_face_family import GPT2_NAMES
from bert_keras.checkpoints.hugging_face_names import FAMILIES, known_to
from bert_keras.checkpoints.manifest import CONFIG, WEIGHTS
from bert_keras.errors import ArtifactError
from bert_keras.presets import HANDLES
from tests import contracts, reference
from tests.checkpoints.published_models import MODELS, SCALED, Model
from tests.tokenizers import family_folders

# Biases that nomic-bert-2048 does not have.
_ABSENT = ("cls.predictions.bias", "cls.predictions.transform.dense.bias")


@pytest.mark.parametrize("name", MODELS)
def test_keys_are_known_and_values_those_of_the_preset(name: str) -> None:
    model = MODELS[name]
    assert set(model.config) <= known_to(FAMILIES[model.family])
    presets = [each for each, handle in HANDLES.items() if handle == f"hf://{name}"]
    preset = PRESETS[presets[0] if presets else "mpnet_base"]  # all-mpnet-base-v2 has its sizes
    values = {**model.config, "vocab_size": preset.vocab_size}
    values |= FAMILIES[model.family].selected_by  # which the names of the tensors show
    assert read_config(values, Path(CONFIG), pooler=preset.pooler) == preset


def _tokenizer(model: Model, folder: Path, transformers: Any) -> Any:
    """Write the tokenizer of a model into a new folder, and return that of transformers."""
    if model.kind in family_folders.KINDS:
        kind = family_folders.KINDS[model.kind]
        kind.folder(folder)
        (folder / "tokenizer_config.json").write_text(json.dumps(model.tokenizer))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the library's own converter
            return kind.opened(folder, transformers)
    folder.mkdir()
    family_folders.ENGINES[model.kind](folder, transformers)
    opened = transformers.AutoTokenizer.from_pretrained(folder)
    (folder / "tokenizer_config.json").write_text(json.dumps(model.tokenizer))
    return opened


def _of_transformers(model: Model, values: dict[str, Any], transformers: Any) -> Any:
    """Return a random model of transformers for the values of a config.json."""
    head = next(end for end in ("ForMaskedLM", "Model") if model.theirs.endswith(end))
    config_class = getattr(transformers, f"{model.theirs.removesuffix(head)}Config")
    of_files = ("model_type", "architectures", "auto_map", "torch_dtype", "id2label", "label2id")
    known = copy.deepcopy({key: values[key] for key in values if key not in of_files})
    if known.get("pad_token_id", 0) >= values["vocab_size"]:
        known["pad_token_id"] = 0  # the library makes no table without this row
    if "Deberta" in model.theirs:
        known["legacy"] = False  # as the published names of the MLM head show
    if "Nomic" in model.theirs:  # the library does not read the earlier names
        keys = GPT2_NAMES.keys() - {*known, "hidden_act"}
        known |= {key: known[GPT2_NAMES[key][0]] for key in keys}
    config = config_class(**{**known, "attn_implementation": "eager"})
    return reference.as_trained(getattr(transformers, model.theirs)(config).eval())


def _tensors(name: str, theirs: Any, folder: Path) -> dict[str, np.ndarray]:
    """Save a model of transformers, and return its tensors as the published file has them."""
    weights = dict(theirs.named_parameters())
    if name == "nomic-ai/nomic-bert-2048":
        for bias in _ABSENT:
            weights[bias].data.zero_()
    theirs.save_pretrained(folder)
    tensors = load_file(folder / WEIGHTS)
    if MODELS[name].family == "deberta_v2_lm_head":  # the discriminator's head is beside the other
        tensors["mask_predictions.classifier.weight"] = np.zeros((1, 16), "float32")
    if name == "Alibaba-NLP/gte-multilingual-base":
        tensors = {f"new.{name}": values for name, values in tensors.items()}
        head = {"classifier.weight": np.ones((1, 16)), "classifier.bias": np.ones(1)}
        tensors |= {name: values.astype("float32") for name, values in head.items()}
    if name == "nomic-ai/nomic-bert-2048":
        tensors = {name: tensors[name] for name in tensors if name not in _ABSENT}
        tensors = {name.replace("nomic_bert.", "bert."): tensors[name] for name in tensors}
        tensors["cls.predictions.decoder.weight"] = tensors[
            "bert.embeddings.word_embeddings.weight"
        ].copy()
    return tensors


class Published(NamedTuple):
    """A folder as it is published, with the model and the tokenizer of transformers."""

    folder: Path
    theirs: Any
    tokenizer: Any


@pytest.fixture
def published(
    transformers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Published]:
    """Return a function that writes the folder of a name of `MODELS`."""
    from transformers import modeling_rope_utils

    monkeypatch.setitem(modeling_rope_utils.ROPE_INIT_FUNCTIONS, "ntk", reference.ntk_rates)

    def write(name: str) -> Published:
        model, folder = MODELS[name], tmp_path / "published"
        tokenizer = _tokenizer(model, folder, transformers)
        values = {key: SCALED.get(key, value) for key, value in model.config.items()}
        values |= {"vocab_size": len(tokenizer)}
        values |= {"attention_head_size": 8} if "attention_head_size" in values else {}
        theirs = _of_transformers(model, values, transformers)
        save_file(_tensors(name, theirs, tmp_path / "theirs"), folder / WEIGHTS)
        (folder / CONFIG).write_text(json.dumps(values))
        return Published(folder, theirs, tokenizer)

    return write


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_published_folder(name: str, published: Callable[[str], Published]) -> None:
    model = MODELS[name]
    folder, theirs, tokenizer = published(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opened = load_checkpoint(folder)
        ours = Tokenizer.from_preset(folder)
        console = Console(file=io.StringIO(), width=400)
        print_checkpoint(open_checkpoint(folder), console)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert lines[:2] == [f"family: {model.family}", f"unusual in it: {model.unusual}"]
    reference.same_at(opened, theirs, (16, 200))
    for text in ("The newest towers", "wanted and unwanted [MASK] words", "größer 1,000"):
        assert ours.encode(text).ids == tokenizer(text)["input_ids"]
    encoder: Any = getattr(opened, "encoder", opened)
    assert round_trips(encoder.config, "BertEncoder")


def test_gte_multilingual_base_as_a_sentence_encoder(published: Callable[[str], Published]) -> None:
    """The head in the published file stays unused. Unknown tensors are an error."""
    folder, theirs, _ = published("Alibaba-NLP/gte-multilingual-base")
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    rows = [
        {"idx": row, "name": str(row), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for row, (path, kind) in enumerate(kinds.items())
    ]
    (folder / "modules.json").write_text(json.dumps(rows))
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 16, "pooling_mode_cls_token": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))

    opened = load_checkpoint(folder)
    assert isinstance(opened, SentenceEncoder)
    assert (opened.options["pooling"], opened.options["normalize"]) == ("cls", True)
    contracts.assert_same_weights(SentenceEncoder.from_preset(folder), opened)
    contracts.assert_same_weights(BertEncoder.from_preset(folder), opened.encoder)
    x = contracts.inputs_of(opened)
    vectors = reference.hugging_face_outputs(theirs, x)[features.SEQUENCE_OUTPUT][:, 0]
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    reference.assert_close(contracts.numpy(opened(x))[features.SENTENCE_VECTOR], vectors)

    with pytest.raises(ArtifactError, match="is that of a TokenClassifier, not of a Sequence"):
        SequenceClassifier.from_preset(folder, num_classes=None)
    tensors = load_file(folder / WEIGHTS)
    save_file({**tensors, "new.extra.weight": np.ones(1, "float32")}, folder / WEIGHTS)
    with pytest.raises(ArtifactError, match=r"Not used by the model:\n  gte.extra.weight$"):
        load_checkpoint(folder)
