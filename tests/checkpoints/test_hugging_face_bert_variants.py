"""ERNIE, RoFormer, RemBERT and pre-norm encoders: their tables, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras import BertEncoder, MaskedLM, Pretrainer, features, load_checkpoint
from bert_keras.checkpoints import hugging_face_config
from bert_keras.checkpoints.hugging_face_bert_variants import BERT_VARIANTS
from bert_keras.checkpoints.hugging_face_names import FAMILIES
from bert_keras.checkpoints.hugging_face_tensors import tensor_specs
from bert_keras.errors import ArtifactError
from tests import contracts, reference

_HERE = Path("config.json")


def _written(family: str) -> dict[str, Any]:
    """Return the config.json of a tiny encoder of a family."""
    sizes = {"embedding_size": 4} if family == "rembert" else {}
    config = contracts.TINY.replace(family=family, **BERT_VARIANTS[family].fixed, **sizes)
    return hugging_face_config.config_values(config, "BertEncoder")


@pytest.mark.parametrize("family", BERT_VARIANTS)
def test_their_configs_are_read_as_written(family: str) -> None:
    values = _written(family)
    config = hugging_face_config.read_config(values, _HERE, pooler=True)
    assert config.family == family
    assert hugging_face_config.config_values(config, "BertEncoder") == values


def test_ernies_task_table_has_a_row_for_every_token(transformers: Any, tmp_path: Path) -> None:
    """The first row is added to each token, as transformers does where it gets no task ids."""
    model = reference.hugging_face_model(transformers, "Model", "ernie", task_type_vocab_size=5)
    model.save_pretrained(tmp_path)
    encoder = BertEncoder.from_preset(tmp_path)
    assert encoder.config.num_tasks == 5
    x = contracts.batch(encoder.config)
    reference.same_as_hugging_face(encoder, model, x)
    assert encoder.embeddings.task is not None
    table = encoder.embeddings.task.embeddings
    before = contracts.numpy(encoder(x)["sequence_output"])
    values = contracts.numpy(table).copy()
    values[1:] += 1.0
    table.assign(values)
    np.testing.assert_array_equal(contracts.numpy(encoder(x)["sequence_output"]), before)
    values[0] += np.arange(8) / 50
    table.assign(values)
    assert np.abs(contracts.numpy(encoder(x)["sequence_output"]) - before).max() > 0.01


def test_roformers_rotations_are_written_as_transformers_computes_them(transformers: Any) -> None:
    family = BERT_VARIANTS["roformer"]
    config = contracts.TINY.replace(family="roformer", num_heads=1, max_positions=700)
    (spec,) = tensor_specs(family, config, [], prefixed=True)
    assert spec.tensor == "roformer.encoder.embed_positions.weight"
    modeling = transformers.models.roformer.modeling_roformer
    table = modeling.RoFormerSinusoidalPositionalEmbedding(700, 8).create_weight()
    assert spec.variable.value.tobytes() == table.numpy().tobytes()


def test_multiple_choice_over_the_last_token_is_refused(transformers: Any, tmp_path: Path) -> None:
    reference.hugging_face_model(transformers, "ForMultipleChoice", "roformer").save_pretrained(
        tmp_path
    )
    with pytest.raises(ArtifactError, match=r"\['RoFormerForMultipleChoice'\] is not"):
        load_checkpoint(tmp_path)


_PAIRS = [name for name, rows in FAMILIES.items() if "nsp/dense" in rows.heads]


@pytest.mark.parametrize("family", _PAIRS)
def test_a_head_for_sentence_pairs_alone(family: str, transformers: Any, tmp_path: Path) -> None:
    ending = "ForNextSentencePrediction"
    model = reference.hugging_face_model(transformers, ending, family)
    model.save_pretrained(tmp_path)
    task = Pretrainer.from_preset(tmp_path, allow_missing=("mlm",))
    x = contracts.inputs_of(task)
    found = contracts.numpy(task(x))[features.NSP]
    del x[features.MASK_POSITIONS]
    expected = reference.hugging_face_outputs(model, x)[features.NSP]
    reference.assert_close(found, expected, family)


def test_a_tied_rembert_needs_tables_of_one_width(transformers: Any, tmp_path: Path) -> None:
    reference.hugging_face_model(transformers, "ForMaskedLM", "rembert").save_pretrained(tmp_path)
    task = MaskedLM.from_preset(tmp_path)
    assert task.options["tied"] is False
    assert task.options["hidden_sizes"] == [12]
    text = (tmp_path / "config.json").read_text()
    changed = text.replace('"tie_word_embeddings": false', '"tie_word_embeddings": true')
    assert changed != text
    (tmp_path / "config.json").write_text(changed)
    with pytest.raises(ArtifactError, match="tied output matrix must have its width, 4"):
        MaskedLM.from_preset(tmp_path)
