"""Truncation and padding of token ids."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import pytest

from bert_keras.errors import ArtifactError
from bert_keras.tokenizers import encoding
from bert_keras.tokenizers.encoding import ALBERT, BERT, MPNET, ROBERTA, kept_lengths, pad


def test_cuts_as_the_engine_does():
    engine = pytest.importorskip("tokenizers")
    words = engine.Tokenizer(engine.models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    words.pre_tokenizer = engine.pre_tokenizers.Whitespace()
    for first, second, room in itertools.product(range(7), range(7), range(1, 10)):
        words.enable_truncation(room)
        pair = words.encode("a " * first, "b " * second)
        expected = [pair.ids.count(0), pair.ids.count(1)]
        assert kept_lengths([first, second], room + 3, 3) == expected


def test_cuts_one_text_at_the_end():
    assert kept_lengths([5], None, 2) == [5]
    assert kept_lengths([5], 7, 2) == [5]
    assert kept_lengths([5], 6, 2) == [4]
    assert kept_lengths([5], 2, 2) == [0]
    with pytest.raises(ValueError, match=r"special tokens. Received: 1$"):
        kept_lengths([0], 1, 2)


def test_pads_at_the_end():
    rows = [[[2, 7, 3]], [[2, 3], [8, 9, 3]]]
    batch = pad(rows, 1, None, two_segments=True)
    assert batch["token_ids"].tolist() == [[2, 7, 3, 1, 1], [2, 3, 8, 9, 3]]
    assert batch["segment_ids"].tolist() == [[0, 0, 0, 0, 0], [0, 0, 1, 1, 1]]
    assert batch["padding_mask"].tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]
    assert pad([], 0, 4, two_segments=True)["token_ids"].shape == (0, 4)
    assert set(pad(rows, 1, None, two_segments=False)) == {"token_ids", "padding_mask"}


# === Positions of special tokens, as tokenizer files define them ===


PATH = Path("vocab.json")
PAIR = [
    {"SpecialToken": {"id": "<s>", "type_id": 0}},
    {"Sequence": {"id": "A", "type_id": 0}},
    {"SpecialToken": {"id": "</s>", "type_id": 0}},
    {"Sequence": {"id": "B", "type_id": 1}},
    {"SpecialToken": {"id": "</s>", "type_id": 1}},
]


@pytest.mark.parametrize("expected", [BERT, ALBERT, ROBERTA, MPNET])
def test_found_by_the_vocabulary(expected: encoding.Scheme):
    places = "RobertaProcessing" if expected in (ROBERTA, MPNET) else "BertProcessing"
    family = MPNET if expected is MPNET else None
    vocabulary = ["a", *expected.special_tokens]
    assert encoding.find_scheme(PATH, vocabulary, {}, {"type": places}, family) == expected
    processors = [{"type": "ByteLevel"}, {"type": places}]
    sequence = {"type": "Sequence", "processors": processors}
    assert encoding.find_scheme(PATH, vocabulary, {}, sequence, family) == expected


def test_what_is_told_comes_first():
    """Special tokens that a config names take precedence over the usual ones."""
    told = {"mask": "[M]", "unk": "?"}
    vocabulary = {"[PAD]", "[CLS]", "[SEP]", "[M]", "?"}
    found = encoding.find_scheme(PATH, vocabulary, told, None)
    assert found == dataclasses.replace(BERT, mask="[M]", unk="?")
    assert found.special_tokens == ("[PAD]", "?", "[CLS]", "[SEP]", "[M]")


def test_places_of_a_template():
    vocabulary = ROBERTA.special_tokens
    template = {"type": "TemplateProcessing", "pair": PAIR}
    found = encoding.find_scheme(PATH, vocabulary, {}, template)
    assert (found.separators, found.two_segments) == (1, True)
    assert found.num_added(1) == 2
    assert found.num_added(2) == 3
    assert ROBERTA.num_added(2) == 4
    for unknown in (
        {"type": "TemplateProcessing", "pair": PAIR[:2]},
        {"type": "TemplateProcessing", "pair": [PAIR[1], PAIR[3]]},
        {"type": "Other"},
    ):
        assert encoding.find_scheme(PATH, vocabulary, {}, unknown) == ROBERTA
        assert encoding.stated_tokens(unknown | {"pair": [PAIR[1], PAIR[3]]}) == {}
        found = encoding.find_scheme(PATH, vocabulary, {}, unknown, MPNET)
        assert encoding.places(found) == encoding.places(MPNET)


def test_places_of_llama():
    """The token of the start may also precede the second text."""
    pair = [*PAIR[:3], PAIR[0], *PAIR[3:]]
    template = {"type": "TemplateProcessing", "single": PAIR[:3], "pair": pair}
    found = encoding.find_scheme(PATH, ROBERTA.special_tokens, {}, template)
    assert (found.separators, found.cls_before_second, found.num_added(2)) == (1, True, 4)
    assert encoding.stated_tokens(template) == {"cls": "<s>", "sep": "</s>"}
    roberta = {"type": "RobertaProcessing", "cls": ["[C]", 1], "sep": ["[S]", 2]}
    sequence = {"type": "Sequence", "processors": [{"type": "ByteLevel"}, roberta]}
    assert encoding.stated_tokens(sequence) == {"cls": "[C]", "sep": "[S]"}


@pytest.mark.parametrize(
    "pair",
    [
        PAIR[:4],  # nothing after the second text
        PAIR[1:],  # nothing before the first
        [*PAIR[:2], *PAIR[3:]],  # nothing between them
        [*PAIR[:3], PAIR[0], PAIR[2], *PAIR[3:]],
        [PAIR[0], *PAIR],
    ],
)
def test_places_that_are_not_supported(pair: list):
    template = {"type": "TemplateProcessing", "single": PAIR[:3], "pair": pair}
    with pytest.raises(ArtifactError, match=r"vocab.json: special tokens .* '<s> A </s>' and"):
        encoding.find_scheme(PATH, ROBERTA.special_tokens, {}, template)


def test_a_text_without_an_end_is_not_supported():
    template = {"type": "TemplateProcessing", "single": PAIR[:2], "pair": PAIR}
    with pytest.raises(ArtifactError, match=r"Received: '<s> A' and '<s> A </s> B </s>'"):
        encoding.find_scheme(PATH, ROBERTA.special_tokens, {}, template)


def test_a_missing_token_is_named():
    with pytest.raises(ArtifactError, match=r"vocab.json: no cls and no mask token"):
        encoding.find_scheme(PATH, ["[PAD]", "[UNK]", "[SEP]"], {}, None)
