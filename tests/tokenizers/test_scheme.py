"""Where special tokens stand, as the files of a tokenizer say it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bert_keras.errors import ArtifactError
from bert_keras.tokenizers import scheme
from bert_keras.tokenizers.scheme import ALBERT, BERT, ROBERTA

PATH = Path("vocab.json")
PAIR = [
    {"SpecialToken": {"id": "<s>", "type_id": 0}},
    {"Sequence": {"id": "A", "type_id": 0}},
    {"SpecialToken": {"id": "</s>", "type_id": 0}},
    {"Sequence": {"id": "B", "type_id": 1}},
]


@pytest.mark.parametrize("expected", [BERT, ALBERT, ROBERTA])
def test_found_by_the_vocabulary(expected: scheme.Scheme):
    places = "RobertaProcessing" if expected is ROBERTA else "BertProcessing"
    vocabulary = ["a", *expected.special_tokens]
    assert scheme.find(PATH, vocabulary, {}, {"type": places}) == expected
    processors = [{"type": "ByteLevel"}, {"type": places}]
    sequence = {"type": "Sequence", "processors": processors}
    assert scheme.find(PATH, vocabulary, {}, sequence) == expected


def test_what_is_told_comes_first():
    told = {"mask": "[M]", "unk": "?"}
    vocabulary = {"[PAD]", "[CLS]", "[SEP]", "[M]", "?"}
    found = scheme.find(PATH, vocabulary, told, None)
    assert found == dataclasses.replace(BERT, mask="[M]", unk="?")
    assert found.special_tokens == ("[PAD]", "?", "[CLS]", "[SEP]", "[M]")


def test_places_of_a_template():
    vocabulary = ROBERTA.special_tokens
    template = {"type": "TemplateProcessing", "pair": PAIR}
    found = scheme.find(PATH, vocabulary, {}, template)
    assert (found.separators, found.two_segments) == (1, True)
    assert found.num_added(1) == 2
    assert found.num_added(2) == 3
    assert ROBERTA.num_added(2) == 4
    for unknown in ({"type": "TemplateProcessing", "pair": PAIR[:2]}, {"type": "Other"}):
        assert scheme.find(PATH, vocabulary, {}, unknown) == ROBERTA


def test_a_missing_token_is_named():
    with pytest.raises(ArtifactError, match=r"vocab.json: no cls and no mask token"):
        scheme.find(PATH, ["[PAD]", "[UNK]", "[SEP]"], {}, None)
