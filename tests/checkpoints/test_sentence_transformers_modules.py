"""Each small JSON file of a sentence-transformers folder, read alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bert_keras.checkpoints import sentence_transformers_modules as keys
from bert_keras.checkpoints import sentence_transformers_modules as module
from bert_keras.errors import ArtifactError

_DENSE = {"in_features": 4, "out_features": 3}


def _written(path: Path, values: Any) -> Path:
    path.write_text(json.dumps(values))
    return path


def test_a_dense_layer_has_their_usual_values(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    expected = {"units": 3, "activation": "tanh", "use_bias": True, "residual": False}
    assert module.read_dense(_written(path, _DENSE), 4) == expected
    values = {"bias": False, "use_residual": True, "activation_function": "torch.nn.Identity"}
    found = module.read_dense(_written(path, _DENSE | values), 4)
    assert found == {"units": 3, "activation": "linear", "use_bias": False, "residual": True}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"in_features": 5}, "expected in_features=4"),
        ({"out_features": True}, "out_features=True"),
        ({"bias": 1}, "expected true or false"),
        ({"module_input_name": "token_embeddings"}, "a MultiVectorEncoder"),
        ({"module_output_name": "scores"}, "only module_output_name='sentence_embedding'"),
    ],
)
def test_dense_layers_that_are_refused(
    values: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ArtifactError, match=message):
        module.read_dense(_written(tmp_path / "config.json", _DENSE | values), 4)


def test_a_key_of_tomorrow_is_named(tmp_path: Path) -> None:
    """An unknown key of a module is named in a warning or refused."""
    with pytest.warns(UserWarning, match=r"not read: scale\. Compare the answers"):
        module.read_dense(_written(tmp_path / "config.json", _DENSE | {"scale": 2}), 4)
    with pytest.raises(ArtifactError, match="not supported: scale=2"):
        module.read_pooling(
            _written(tmp_path / "config.json", {"embedding_dimension": 4, "scale": 2})
        )


@pytest.mark.parametrize(
    ("told", "length"),
    [
        ({}, 7),
        ({"max_seq_length": None}, 7),
        ({"max_seq_length": 5}, 5),
        ({"max_seq_length": 5, "tokenizer_args": {"model_max_length": 6}}, 6),
        ({"max_seq_length": 5, "processing_kwargs": {"text": {"max_length": 4}}}, 4),
    ],
)
def test_the_length_wherever_it_stands(told: dict[str, Any], length: int, tmp_path: Path) -> None:
    """The maximum length is found in each file that may have it."""
    _written(tmp_path / "tokenizer_config.json", {"model_max_length": 7})
    _written(tmp_path / "sentence_roberta_config.json", told)
    assert module.max_length(tmp_path)[2] == length
    module.check_transformer(tmp_path, keys.VECTORS)


def test_a_name_with_another_value_twice(tmp_path: Path) -> None:
    """A setting with two names and different values is refused."""
    values = {"embedding_dimension": 4, "word_embedding_dimension": 4}
    assert module.read_pooling(_written(tmp_path / "c.json", values))[0] == 4
    values["word_embedding_dimension"] = 5
    with pytest.raises(ArtifactError, match="contradict each other"):
        module.read_pooling(_written(tmp_path / "c.json", values))
