"""Entities by aggregation are those of the pipeline of transformers."""

from __future__ import annotations

import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras import TokenClassifier, Tokenizer
from bert_keras.inference.batching import Runner
from bert_keras.inference.entity_aggregation import (
    AGGREGATIONS,
    Tokens,
    aggregate,
    token_probabilities,
)
from bert_keras.inference.token_classification import entities_of, entity_tags
from bert_keras.predictor import Entity, Predictor
from tests.tokenizers import learners
from tests.tokenizers.samples import TRICKY, VOCABULARY

LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
LENGTH = 128  # tokens that the models read
# Special tokens in a text are ordinary text here, and special in transformers.
TEXTS = [
    *(text for text in TRICKY if text.strip() and "[MASK]" not in text and len(text) < LENGTH),
    *learners.SENTENCES,
    " Leading  space,\ttab\nand line: don't wantéd-unaffable “Ünñ”.",
]
LONG = " ".join(learners.SENTENCES * 3)
# Kind of tokenizer -> class of the model, and values of its config.
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "wordpiece": ("Bert", {}),
    "roberta": ("Roberta", {"type_vocab_size": 1}),
    "albert": ("Albert", {"embedding_size": 4}),
    "xlm_roberta": ("XLMRoberta", {"type_vocab_size": 1}),
}


class Both(NamedTuple):
    """A predictor, and transformers' pipeline of the same model."""

    predictor: Predictor
    pipeline: Any
    folder: Path

    def strategy(self, aggregation: str) -> Any:
        """Return an aggregation as transformers' own object."""
        from transformers.pipelines.token_classification import AggregationStrategy

        return AggregationStrategy(aggregation)

    def expected(self, text: str, aggregation: str) -> list[Entity]:
        """Return the entities that transformers finds in a text."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about tokenizers that do not know words
            found = self.pipeline(text, aggregation_strategy=aggregation)
        return entities(text, found)


def entities(text: str, found: list[dict[str, Any]]) -> list[Entity]:
    """Return results of transformers as our objects."""
    return [
        Entity(
            row.get("entity_group", row.get("entity", "")),
            text[row["start"] : row["end"]],
            row["start"],
            row["end"],
            float(row["score"]),
        )
        for row in found
    ]


def assert_alike(found: list[Entity], expected: list[Entity]) -> None:
    """Check that two lists of entities differ at most by rounding."""
    assert [(e.label, e.text, e.start, e.end) for e in found] == [
        (e.label, e.text, e.start, e.end) for e in expected
    ]
    np.testing.assert_allclose([e.score for e in found], [e.score for e in expected], atol=1e-5)


@pytest.fixture(scope="module", params=MODELS)
def both(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    transformers: Any,
) -> Both:
    pytest.importorskip("sentencepiece")
    import torch

    folder = tmp_path_factory.mktemp(request.param)
    name, values = MODELS[request.param]
    tokenizer = Tokenizer(VOCABULARY)
    if request.param in learners.FAMILIES:
        source = tmp_path_factory.mktemp("vocabulary")
        learners.FAMILIES[request.param](source)
        tokenizer = Tokenizer.from_preset(source)
    tokenizer.save_to_preset(folder)
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(
        vocab_size=tokenizer.vocab_size,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=LENGTH + tokenizer.pad_id + 1,
        initializer_range=0.8,
        pad_token_id=tokenizer.pad_id,
        id2label=dict(enumerate(LABELS)),
        label2id={label: number for number, label in enumerate(LABELS)},
        **values,
    )
    model = getattr(transformers, f"{name}ForTokenClassification")(config).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save_pretrained(folder)
        theirs = transformers.AutoTokenizer.from_pretrained(folder, model_max_length=LENGTH)
        pipeline = transformers.pipeline(
            "token-classification", model=model, tokenizer=theirs, device="cpu"
        )
    predictor = Predictor.from_preset(folder, batch_size=4, max_length=LENGTH)
    return Both(predictor, pipeline, folder)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_entities_of_texts(both: Both, aggregation: str) -> None:
    """Labels, characters, scores and order are those of transformers, for every tokenizer."""
    found = both.predictor.predict_entities(TEXTS, aggregation=aggregation)
    assert sum(map(len, found)) > 20
    for text, ours in zip(TEXTS, found, strict=True):
        assert_alike(ours, both.expected(text, aggregation))


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_long_texts(both: Both, aggregation: str) -> None:
    """Transformers finds the same entities in the logits of all rows, one after another."""
    import torch

    tokenizer = both.predictor.tokenizer
    tokens = Tokens.of(tokenizer, LONG)
    rows = [tokens.ids[part].tolist() for part in tokens.rows(LENGTH - 2)]
    assert len(rows) > 1
    with torch.no_grad():
        logits = [
            both.pipeline.model(torch.tensor([[tokenizer.cls_id, *row, tokenizer.sep_id]])).logits
            for row in rows
        ]
    output = {
        "logits": torch.cat([row[:, 1:-1] for row in logits], dim=1),
        "sentence": LONG,
        "input_ids": torch.tensor(tokens.ids)[None],
        "offset_mapping": torch.tensor(np.stack([tokens.starts, tokens.ends], axis=1))[None],
        "special_tokens_mask": torch.zeros(1, len(tokens), dtype=torch.int64),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = entities(LONG, both.pipeline.postprocess([output], both.strategy(aggregation)))
    (found,) = both.predictor.predict_entities([LONG], aggregation=aggregation)
    assert_alike(found, expected)
    assert found[-1].start > len(LONG) * 0.8


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_random_probabilities(both: Both, aggregation: str) -> None:
    """Groups follow transformers for labels of other schemes too, such as E-X and LABEL-1."""
    labels = ["O", "B-X", "I-X", "I-Y", "E-X", "LABEL-1", "N", "B-"]
    names = dict(both.pipeline.model.config.id2label)
    both.pipeline.model.config.id2label = dict(enumerate(labels))
    rng = np.random.default_rng(0)
    try:
        for text in TEXTS:
            tokens = Tokens.of(both.predictor.tokenizer, text)
            scores = rng.dirichlet(np.full(len(labels), 0.3), len(tokens)).astype(np.float32)
            rows = [
                {"word": "", "scores": row, "start": start, "end": end, "index": index}
                for index, (row, start, end) in enumerate(
                    zip(scores, tokens.starts.tolist(), tokens.ends.tolist(), strict=True)
                )
            ]
            for row, continues in zip(rows, tokens.continues, strict=True):
                row["is_subword"] = bool(continues)
            groups = both.pipeline.aggregate(rows, both.strategy(aggregation))
            expected = [e for e in entities(text, groups) if e.label != "O"]
            assert_alike(aggregate(text, tokens, scores, labels, aggregation), expected)
    finally:
        both.pipeline.model.config.id2label = names


@settings(max_examples=200, deadline=None)
@given(continues=st.lists(st.booleans(), max_size=30), room=st.integers(1, 9))
def test_rows_end_before_words(continues: list[bool], room: int) -> None:
    flags = np.array(continues, np.bool_)
    flags[:1] = False
    ids = np.arange(len(flags), dtype=np.int32)
    parts = [range(len(flags))[part] for part in Tokens(ids, ids, ids, flags).rows(room)]
    assert [index for part in parts for index in part] == ids.tolist()
    assert all(len(part) <= room for part in parts)
    for part, following in pairwise(parts):
        begin, end = part[0], following[0]
        begins_of_words = [i for i in range(begin + 1, begin + room + 1) if not flags[i]]
        # Without a begin of a word within reach, a long word is split.
        assert end == max(begins_of_words, default=begin + room)


def test_the_default_is_our_own_reading(both: Both) -> None:
    """Without the argument, words are those of `words_of`, whatever the tokenizer."""
    text = "the lowest tower, the wanted world"
    words = [(0, 3), (4, 10), (11, 16), (16, 17), (18, 21), (22, 28), (29, 34)]
    task = TokenClassifier.from_preset(both.folder)
    tags = task.predict_tags([[text[start:end] for start, end in words]])[0]
    expected = entities_of(text, words, tags, entity_tags(LABELS))
    for found in (task.predict_entities(text), both.predictor([text], aggregation=None)[0]):
        assert_alike(found, expected)
    assert_alike(task.predict_entities(text, aggregation="max"), both.expected(text, "max"))


def test_an_option_of_predictor_json(both: Both, tmp_path: Path) -> None:
    """A folder keeps the option, which holds for calls of the predictor."""
    texts = TEXTS[:3]
    predictor = Predictor(both.predictor.task, options={"aggregation": "max"})
    predictor.save_to_preset(tmp_path / "saved")
    opened = Predictor.from_preset(tmp_path / "saved")
    assert opened.options == {"aggregation": "max"}
    for ours, expected in zip(opened(texts), predictor(texts), strict=True):
        assert_alike(ours, expected)
    alone = predictor.predict_entities(texts, aggregation="max")
    assert predictor(texts) == alone
    assert predictor(texts, aggregation=None) == predictor.predict_entities(texts)


def test_no_texts_and_wrong_values(task, tokenizer) -> None:
    predictor = Predictor(task("tags"), tokenizer)
    assert predictor.predict_entities([], aggregation="simple") == []
    assert predictor.predict_entities(["", " \u3000"], aggregation="first") == [[], []]
    with pytest.raises(ValueError, match=r"one of none, simple, .* aggregation='mean'"):
        predictor.predict_entities("a", aggregation="mean")
    with pytest.raises(ValueError, match=r"conditional random field .* crf=True\. Leave"):
        Predictor(task("linked"), tokenizer).predict_entities("a", aggregation="first")
    with pytest.raises(ValueError, match=r"one of none, .* aggregation=3"):
        Predictor(task("tags"), tokenizer, options={"aggregation": 3})
    with pytest.raises(ValueError, match="conditional random field"):
        Predictor(task("linked"), tokenizer, options={"aggregation": "none"})
    runner = Runner(task("tags"), tokenizer, batch_size=1, max_length=2)
    with pytest.raises(ValueError, match=r"max_length=2 leaves no room .* at least 3"):
        token_probabilities(runner, ["a"], len(LABELS))
