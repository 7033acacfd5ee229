"""Multiple choice: the logits of all options and the best option."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bert_keras import Predictor
from bert_keras.inference.multiple_choice import choice_logits

PROMPTS = ["the hello", "want", ""]
OPTIONS = [["world", "mask"], ["the", "unaffable want"], ["hello", "sep"]]


def test_logits_are_those_of_the_model_in_the_order_of_the_prompts(
    task: Any, tokenizer: Any
) -> None:
    model = task("choices")
    predictor = Predictor(model, tokenizer, batch_size=2)
    logits = choice_logits(predictor._runner(), PROMPTS, OPTIONS)
    assert logits.shape == (3, 2)
    for row, (prompt, options) in enumerate(zip(PROMPTS, OPTIONS, strict=True)):
        firsts = [prompt] * 2 if prompt else options
        x = tokenizer(firsts, options if prompt else None, max_length=32)
        batch = {tensor.name: x[tensor.name][None] for tensor in model.inputs}
        expected = model.predict_on_batch(batch)["choice"][0]
        np.testing.assert_allclose(logits[row], expected, atol=1e-5)


def test_the_best_option_is_the_answer(task: Any, tokenizer: Any) -> None:
    predictor = Predictor(task("choices"), tokenizer)
    logits = choice_logits(predictor._runner(), PROMPTS, OPTIONS)
    for row, choice in enumerate(predictor.predict_choices(PROMPTS, OPTIONS)):
        assert choice.index == logits[row].argmax()
        assert choice.text == OPTIONS[row][choice.index]


def test_prompts_may_have_unequal_numbers_of_options(task: Any, tokenizer: Any) -> None:
    prompts = [*PROMPTS, "world"]
    options = [["world", "mask"], ["the", "unaffable want", "sep"], ["hello", "sep"], ["un"] * 3]
    runner = Predictor(task("choices"), tokenizer)._runner()
    found = Predictor(task("choices"), tokenizer).predict_choices(prompts, options)
    for prompt, some, choice in zip(prompts, options, found, strict=True):
        logits = choice_logits(runner, [prompt], [some])[0]
        shares = np.exp(logits) / np.exp(logits).sum()
        assert choice.index == logits.argmax()
        assert choice.text == some[choice.index]
        assert choice.score == pytest.approx(shares.max(), abs=1e-5)


def test_a_model_without_choices_is_refused(task: Any, tokenizer: Any) -> None:
    predictor = Predictor(task("labels"), tokenizer)
    with pytest.raises(ValueError, match=r"`predict_choices` needs .* output 'choice'"):
        predictor.predict_choices(PROMPTS, OPTIONS)
