"""Open axes have the names that the exported models show."""

from __future__ import annotations

import pytest

from bert_keras.export.runtimes.axes import flat, input_axes, output_axes
from bert_keras.models import (
    BertEncoder,
    MaskedLM,
    MultipleChoice,
    SentencePairs,
    TokenClassifier,
)
from tests.contracts import TINY

ROWS = ("batch", "length")


@pytest.mark.parametrize(
    ("make", "token_ids", "outputs"),
    [
        (TokenClassifier, ROWS, {"tags": ("batch", "length", 2)}),
        (MaskedLM, ROWS, {"mlm": ("batch", "predictions", 50)}),
        (MultipleChoice, ("batch", "texts", "length"), {"choice": ("batch", "texts")}),
        (SentencePairs, ("batch", 2, "length"), {"match": ("batch", 2, 8)}),
    ],
)
def test_names(make, token_ids, outputs) -> None:
    sizes = (2,) if make is TokenClassifier else ()
    model = make(BertEncoder(TINY), *sizes)
    assert input_axes(model)["token_ids"] == token_ids
    assert output_axes(model) == outputs


def test_tuples_are_numbered() -> None:
    encoder = BertEncoder(TINY, hidden_states=True, attentions=True)
    found = output_axes(encoder)
    assert [name for name in found if "_" in name and name[-1].isdigit()] == [
        *(f"hidden_states_{number}" for number in range(3)),
        *(f"attentions_{number}" for number in range(2)),
    ]
    assert found["attentions_1"] == ("batch", 2, "length", "length")
    assert input_axes(MaskedLM(encoder))["mask_positions"] == ("batch", "predictions")
    assert flat({"a": 1, "b": (2, 3)}) == {"a": 1, "b_0": 2, "b_1": 3}
