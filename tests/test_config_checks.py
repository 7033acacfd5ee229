"""Rules for single values of a config. test_config.py tests them through `BertConfig`."""

from __future__ import annotations

import dataclasses

import pytest

from bert_keras import BertConfig, config_checks
from bert_keras.config_checks import MOST, checked, is_whole


def test_every_rule_is_of_a_value_of_the_config() -> None:
    names = {field.name for field in dataclasses.fields(BertConfig)}
    rules = (MOST, config_checks._CHOICES, config_checks._FLAGS, config_checks._RATES)
    more = (config_checks._FRACTIONS, config_checks._BASES, config_checks._MAY_BE_NONE)
    more = (*more, config_checks._SCALES)
    assert set().union(*rules, *more, config_checks._MAY_BE_ZERO) <= names
    assert names - set().union(*rules, *more) == {"pruned_heads"}


@pytest.mark.parametrize("name", MOST)
def test_counts_have_limits(name: str) -> None:
    assert checked(name, MOST[name]) == MOST[name]
    with pytest.raises(ValueError, match=f"at most {MOST[name]:,}"):
        checked(name, MOST[name] + 1)


def test_what_may_be_none_and_what_has_no_rule() -> None:
    assert [checked(name, None) for name in config_checks._MAY_BE_NONE] == [None, None]
    heads = ((1,), ())
    assert checked("pruned_heads", heads) is heads
    assert not is_whole(True)
