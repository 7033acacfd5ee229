"""Variable names in SavedModels that the Model Garden's export_tfhub_lib.py wrote."""

from __future__ import annotations

import pytest

from bert_keras import BertEncoder, MaskedLM
from bert_keras.checkpoints import tf_hub
from tests.contracts import TINY

# Names in an encoder with the sizes of TINY and the sub-object `mlm`, exported by
# tf-models-official 2.20. A bias is left out if its kernel is listed, and a beta if its gamma is.
_EMBEDDINGS = {
    "word_embeddings/embeddings": (50, 8),
    "position_embedding/embeddings": (12, 8),
    "type_embeddings/embeddings": (2, 8),
    "embeddings/layer_norm/gamma": (8,),
}
_BLOCK = {
    "self_attention/query/kernel": (8, 2, 4),
    "self_attention/key/kernel": (8, 2, 4),
    "self_attention/value/kernel": (8, 2, 4),
    "self_attention/attention_output/kernel": (2, 4, 8),
    "self_attention_layer_norm/gamma": (8,),
    "intermediate/kernel": (8, 16),
    "output/kernel": (16, 8),
    "output_layer_norm/gamma": (8,),
}
_HEADS = {
    "pooler_transform/kernel": (8, 8),
    "bert/cls/predictions/output_bias/bias": (50,),
    "bert/cls/predictions/transform/dense/kernel": (8, 8),
    "bert/cls/predictions/transform/LayerNorm/gamma": (8,),
}
_BIASES = {
    "self_attention/query/bias": (2, 4),
    "self_attention/attention_output/bias": (8,),
    "intermediate/bias": (16,),
    "output_layer_norm/beta": (8,),
}


@pytest.mark.parametrize("shared", [False, True], ids=["bert", "albert"])
def test_names_are_the_model_gardens(shared: bool) -> None:
    task = MaskedLM(BertEncoder(TINY.replace(num_unique_layers=1 if shared else 2)))
    blocks = ["transformer"] if shared else ["transformer/layer_0", "transformer/layer_1"]
    expected = {
        **{tf_hub.current_name(name): shape for name, shape in _HEADS.items()},
        **_EMBEDDINGS,
        **{f"{block}/{name}": shape for block in blocks for name, shape in _BLOCK.items()},
    }
    biases = {f"{block}/{name}": shape for block in blocks for name, shape in _BIASES.items()}
    names = tf_hub.name_map(TINY.num_heads, shared=shared)
    found = {spec.tensor: spec.shape for spec in names.tensor_specs(task.weights)}
    assert len(found) == len(task.weights)
    assert expected.items() | biases.items() <= found.items()
    rest = set(found) - set(expected)
    assert {name.rpartition("/")[2] for name in rest} == {"bias", "beta"}


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        ("word_embeddings/embeddings", "word_embeddings/embeddings"),
        ("my_model/transformer/layer_0/output/bias", "transformer/layer_0/output/bias"),
        ("bert/cls/predictions/output_bias/bias", "cls/predictions/output_bias/bias"),
        # The first TensorFlow 2 models of google-research (tensorflow/hub, issue 565).
        ("bert_model/pooler_transform/kernel", "pooler_transform/kernel"),
        ("bert_model/embedding_postprocessor/layer_norm/beta", "embeddings/layer_norm/beta"),
        (
            "bert_model/embedding_postprocessor/type_embeddings",
            "type_embeddings/embeddings",
        ),
        (
            "bert_model/embedding_postprocessor/position_embeddings",
            "position_embedding/embeddings",
        ),
        (
            "bert_model/encoder/layer_11/self_attention_output/kernel",
            "transformer/layer_11/self_attention/attention_output/kernel",
        ),
        ("not_transformer/kernel", "not_transformer/kernel"),
        ("strange/kernel", "strange/kernel"),
    ],
)
def test_current_name(variable: str, expected: str) -> None:
    assert tf_hub.current_name(variable) == expected


@pytest.mark.parametrize("start", ["", "module/", "module_1/"])
def test_without_scope(start: str) -> None:
    name = "bert/embeddings/word_embeddings"
    assert tf_hub.without_scope(start + name) == name
