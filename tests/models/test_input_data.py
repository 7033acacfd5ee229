"""The keys of a batch: unknown keys never move a tensor to another input."""

from __future__ import annotations

import string
from typing import Any
from unittest.mock import patch

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras import BertEncoder, MaskedLM, features
from bert_keras.models.encoder import EncoderView
from tests import contracts
from tests.contracts import TINY, numpy
from tests.models import every_model

METHODS = ("fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch")
WAYS = ("__call__", "call", *METHODS)
ENCODER = contracts.as_trained(BertEncoder(TINY))
X = every_model.inputs(ENCODER)
EXPECTED = numpy(ENCODER(X))["sequence_output"]
ALIASES = {
    ours: [key for key, name in features.INPUT_ALIASES.items() if name == ours]
    for ours in features.INPUTS
}


def test_every_class_and_view_is_tried() -> None:
    classes = {type(every_model.model(name)) for name in every_model.MODELS}
    assert set(every_model.discovered()) <= classes | {BertEncoder}
    views = [
        name
        for name, method in vars(BertEncoder).items()
        if getattr(method, "__annotations__", {}).get("return") == EncoderView.__name__
    ]
    assert set(views) - {"_view"} <= set(every_model.MODELS)


@pytest.mark.parametrize("name", every_model.MODELS)
def test_keras_receives_the_inputs_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, received = every_model.model(name), []
    x = every_model.inputs(model)
    monkeypatch.setattr(keras.Model, "__call__", lambda _model, x: received.append(x))
    more = {key: X["token_ids"] for key in features.IGNORED_KEYS if key not in x}
    model({**more, **x})
    model({**x, **more})
    aliases = {key: ours for key, ours in features.INPUT_ALIASES.items() if ours in x}
    chosen = {ours: key for key, ours in aliases.items()}
    model({chosen.get(key, key): values for key, values in x.items()})
    assert len(chosen) >= 2
    for batch in received:
        assert list(batch) == list(x) or set(batch) == set(x)
        assert all(batch[key] is values for key, values in x.items())


@pytest.mark.parametrize("name", every_model.MODELS)
def test_what_is_no_batch_is_refused_by_name(name: str) -> None:
    """Unknown or repeated keys, tensors and lists are refused, and the message names them."""
    model = every_model.model(name)
    x = every_model.inputs(model)
    tokens = x["token_ids"]
    faults: dict[str, tuple[Any, str]] = {
        "unknown": ({**x, "aaa": tokens}, r"no input 'aaa'.*inputs are 'token_ids'"),
        "twice": ({**x, "input_ids": tokens}, "'token_ids' twice, .*'token_ids' and 'input_ids'"),
        "a tensor": (tokens, r"takes a dictionary .*'token_ids'.*Received: a ndarray of shape"),
        "a list": (list(x.values()), "takes a dictionary with the keys .*Received: a list"),
    }
    for key, values in x.items():
        others = {other: each for other, each in x.items() if other != key}
        faults[f"no {key}"] = (others, f"input '{key}' .*missing.*Received the keys: ")
        faults[f"None as {key}"] = ({**x, key: None}, f"input '{key}' .*missing")
        faults[f"rank of {key}"] = (
            {**x, key: values[0]},
            f"'{key}'.*\\[batch, .*Received: .*shape",
        )
        faults[f"deep {key}"] = ({**x, key: values[..., None, None]}, f"'{key}'.*\\[batch, ")
        faults[f"text as {key}"] = ({**x, key: "text"}, f"'{key}' .*Received: a str")
    if "padding_mask" in x:
        faults["packed rows"] = ({**x, "position_ids": tokens}, "'position_ids'.*`packed\\(\\)`")
    for batch, message in faults.values():
        for way in WAYS:
            with pytest.raises(ValueError, match=message):
                getattr(model, way)(batch)


def test_a_generator_of_texts_is_told_where_text_goes() -> None:
    texts = (text for text in ["a film", "a book"])
    with pytest.raises(ValueError, match=r"Text goes into `fit`.* generator .*Received: a str"):
        every_model.model("classifier").fit(texts, shuffle=False, verbose=0)


# Names that sort before, between and after the names of the inputs.
_names = st.one_of(
    st.sampled_from(sorted({*features.IGNORED_KEYS, *features.INPUT_ALIASES, *features.INPUTS})),
    st.text(string.ascii_letters + string.digits + "_ \x00é", max_size=12),
    st.sampled_from([key + end for key in X for end in ("", "0", "_", "s", " ")]),
    st.sampled_from([key[:-1] for key in X]),
)


@given(
    more=st.lists(_names, max_size=4, unique=True),
    names=st.fixed_dictionaries({key: st.sampled_from([key, *ALIASES[key]]) for key in X}),
    order=st.randoms(use_true_random=False),
)
@settings(max_examples=200, deadline=None)
def test_other_keys_change_nothing_or_are_refused(
    more: list[str], names: dict[str, str], order: Any
) -> None:
    batch = {names[key]: values for key, values in X.items()}
    for key in more:
        batch.setdefault(key, X["token_ids"][:, ::-1])
    items = list(batch.items())
    order.shuffle(items)
    others = {features.INPUT_ALIASES.get(key, key) for key in set(batch) - set(names.values())}
    received: list[dict[str, np.ndarray]] = []
    with patch.object(keras.Model, "__call__", lambda _model, x: received.append(x)):
        if others <= features.IGNORED_KEYS - set(X):
            ENCODER(dict(items))
            assert received[0].keys() == X.keys()
            assert all(received[0][key] is values for key, values in X.items())
        else:
            with pytest.raises(ValueError, match=r"no input|twice"):
                ENCODER(dict(items))


@pytest.mark.parametrize("key", ["aliases", "input_ids", "labels", "mask_positions", "tags"])
def test_outputs_are_the_same_with_other_keys(key: str) -> None:
    batch: dict[str, np.ndarray] = {**X, key: X["token_ids"][:, ::-1]}
    if key in ("aliases", "input_ids"):
        with pytest.raises(ValueError, match=r"no input 'aliases'|'token_ids' twice"):
            ENCODER(batch)
        return
    np.testing.assert_array_equal(numpy(ENCODER(batch))["sequence_output"], EXPECTED)


def test_the_batch_of_a_task_is_one_of_its_encoder() -> None:
    task = MaskedLM(ENCODER)
    batch = {**every_model.inputs(task), **X}
    np.testing.assert_allclose(
        ENCODER.predict(batch, verbose=0)["sequence_output"], EXPECTED, atol=1e-6
    )


def test_symbolic_inputs() -> None:
    symbols = {
        key: keras.Input((None,), dtype="int32", name=key)
        for key in ("attention_mask", "input_ids", "labels", "token_type_ids")
    }
    own = keras.Model(symbols, ENCODER(symbols)["sequence_output"])
    values = {"attention_mask": X["padding_mask"], "input_ids": X["token_ids"]}
    values |= {"labels": X["token_ids"], "token_type_ids": X["segment_ids"]}
    np.testing.assert_allclose(own.predict(values, verbose=0), EXPECTED, atol=1e-6)
    with pytest.raises(ValueError, match=r"'padding_mask' .*missing.*'attention_mask'"):
        ENCODER({"input_ids": symbols["input_ids"], "token_type_ids": symbols["token_type_ids"]})


def test_an_encoder_without_segments_ignores_them() -> None:
    encoder = BertEncoder(TINY.replace(num_segments=0))
    x = {key: values for key, values in X.items() if key != "segment_ids"}
    found, expected = encoder({**X, "segment_ids": X["token_ids"]}), encoder(x)
    contracts.assert_close(numpy(found), numpy(expected))
