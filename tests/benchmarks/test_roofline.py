"""Products are counted as by hand, weights as Keras counts them, and products can be measured."""

from __future__ import annotations

import math

import keras
import pytest

from benchmarks import roofline
from benchmarks.encoders import our_encoder
from benchmarks.train_steppers import sizes_of
from bert_keras import MaskedLM

TINY = {"layers": 2, "width": 4, "heads": 2, "batch": 3, "length": 5, "steps": 2}
TINY |= {"vocabulary": 7}


def test_a_hand_count() -> None:
    """Each product of [m, k] and [k, n] is 2 m k n; 3 rows of 5 tokens, 2 heads of width 2."""
    projections = 4 * (2 * 15 * 4 * 4)
    scores = 3 * 2 * (2 * 5 * 2 * 5)
    sums = 3 * 2 * (2 * 5 * 5 * 2)
    feedforward = 2 * 15 * 4 * 16 + 2 * 15 * 16 * 4
    encoder = 2 * (projections + scores + sums + feedforward)
    assert encoder == 2 * (1920 + 600 + 600 + 3840)
    assert roofline.forward_flops(TINY) == encoder


def test_a_hand_count_of_a_masked_language_model() -> None:
    """2 predictions in each of 3 rows; of the other tokens the last layer's keys and values."""
    keys_and_values = 2 * (2 * 15 * 4 * 4)
    queries_and_output = 2 * (2 * 6 * 4 * 4)
    scores = sums = 3 * 2 * (2 * 2 * 2 * 5)
    feedforward = 2 * 6 * 4 * 16 + 2 * 6 * 16 * 4
    last = keys_and_values + queries_and_output + scores + sums + feedforward
    head = 2 * 6 * 4 * 4 + 2 * 6 * 4 * 7
    first = roofline.forward_flops({**TINY, "layers": 1})
    assert roofline.forward_flops(TINY, predictions=2) == first + last + head
    assert roofline.training_flops(TINY, predictions=2) == 3 * (first + last + head)


def test_bert_base_is_about_its_weights_twice_a_token() -> None:
    """Without attention's scores: twice the 85 million weights of the layers' matrices."""
    base = sizes_of({"layers": 12, "width": 768, "heads": 12, "batch": 1, "length": 1, "steps": 1})
    assert roofline.forward_flops(base) == 2 * 84_934_656 + 12 * 4 * 768


def test_weights_are_those_of_the_model() -> None:
    sizes = sizes_of(TINY)
    assert roofline.weights(sizes) == MaskedLM(our_encoder(sizes, "float32")).count_params()
    assert roofline.training_bytes(sizes) == 16 * roofline.weights(sizes)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_products_are_measured(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", keras.backend.backend())
    found = roofline.products(dtype, 64)()
    assert math.isfinite(found["flops_per_second"])
    assert found["flops_per_second"] > 0


def test_the_peak_is_the_best_median() -> None:
    contenders = roofline.peaks("mixed_bfloat16", ("jax", "torch"))
    assert [each.backend for each in contenders] == ["jax", "torch"]
    assert {each.arguments["dtype"] for each in contenders} == {"bfloat16"}
    found = {
        each.name: {"flops_per_second": {"median": rate}}
        for each, rate in zip(contenders, (3.0, 5.0), strict=True)
    }
    assert roofline.peak_of({**found, "bert_keras": {}}) == 5.0
    assert roofline.peak_of({"bert_keras": {}}) is None
