"""Models and added tokens are read for a graph, and unknown parts are refused by name."""

from __future__ import annotations

from typing import Any

import pytest
from tokenizers import pre_tokenizers

from bert_keras.tokenizers import Tokenizer
from bert_keras.tokenizers import graph_pipeline as graph
from tests.tokenizers.samples import VOCABULARY
from tests.tokenizers.subwords import NAMES, tokenizer_of


def test_the_characters_of_bytes() -> None:
    assert set(graph.byte_characters()) == set(pre_tokenizers.ByteLevel.alphabet())
    assert graph.byte_characters()[ord("a")] == "a"
    assert graph.byte_characters()[ord(" ")] == "Ġ"


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_has_a_graph(name: str) -> None:
    tokenizer = tokenizer_of(name)
    assert tokenizer.has_graph
    pipeline = graph.read_pipeline(tokenizer)
    assert isinstance(pipeline.model, graph.ByteBPE) == ("BPE" in repr(tokenizer))
    assert [token.id for token in pipeline.marked] == [token.id for token in pipeline.plain]


def test_word_piece_has_another_graph() -> None:
    tokenizer = Tokenizer(VOCABULARY)
    assert graph.is_word_piece(tokenizer)
    assert tokenizer.has_graph
    assert not tokenizer.add_tokens([" x"]).has_graph


def test_word_piece_with_other_special_tokens() -> None:
    model = graph.read_pipeline(tokenizer_of("mpnet")).model
    assert isinstance(model, graph.WordPieces)
    assert model.pieces[model.unknown] == "[UNK]"
    assert {model.pieces[index] for index in model.hidden} == {
        *("<pad>", "[UNK]", "<s>", "</s>", "<mask>")
    }


def test_special_pieces_are_hidden() -> None:
    model = graph.read_pipeline(tokenizer_of("xlm_roberta")).model
    assert isinstance(model, graph.Unigram)
    assert {model.pieces[index] for index in model.hidden} == {
        *("<pad>", "<unk>", "<s>", "</s>", "<mask>")
    }


@pytest.mark.parametrize(
    ("name", "parts", "message"),
    [
        ("roberta", {"model": {"byte_fallback": True}}, "the model BPE with byte_fallback=True"),
        ("roberta", {"model": {"end_of_word_suffix": "</w>"}}, "end_of_word_suffix='</w>'"),
        ("roberta", {"pre_tokenizer": None}, "the model BPE without ByteLevel"),
        ("xlm_roberta", {"pre_tokenizer": {"type": "UnicodeScripts"}}, "UnicodeScripts"),
        ("xlm_roberta", {"model": {"byte_fallback": True}}, "the model Unigram with byte_fallback"),
        ("mpnet", {"model": {"max_input_chars_per_word": 9}}, "max_input_chars_per_word=9"),
        ("mpnet", {"model": {"continuing_subword_prefix": "@"}}, "continuing_subword_prefix='@'"),
    ],
)
def test_other_models_are_named(name: str, parts: dict[str, Any], message: str) -> None:
    tokenizer = tokenizer_of(name, **parts)
    with pytest.raises(ValueError, match=rf"would not be exact: it has .*{message}.*ids_only=True"):
        graph.require_graph(tokenizer)
    assert not tokenizer.has_graph


def _token(content: str, index: int, **flags: bool) -> dict[str, Any]:
    names = ("special", "normalized", "lstrip", "rstrip", "single_word")
    return {"id": index, "content": content, **dict.fromkeys(names, False), **flags}


@pytest.mark.parametrize(
    ("name", "tokens", "message"),
    [
        ("modernbert", [_token(" ", 0), _token("x", 1, rstrip=True)], "begins with a space"),
        (
            "albert",
            [_token("Ab", 0, normalized=True), _token("aB", 1, normalized=True)],
            "'Ab' too",
        ),
        ("albert", [_token("\u0301", 0, normalized=True)], "no characters after normalisation"),
    ],
)
def test_added_tokens_that_are_not_found_alike(
    name: str, tokens: list[dict[str, Any]], message: str
) -> None:
    tokenizer = tokenizer_of(name)
    size = tokenizer.vocab_size
    json = {"added_tokens": [*_added(tokenizer), *({**t, "id": size + t["id"]} for t in tokens)]}
    with pytest.raises(ValueError, match=message):
        graph.require_graph(tokenizer_of(name, **json))


def _added(tokenizer: Tokenizer) -> list[dict[str, Any]]:
    return [token.json for token in graph.read_pipeline(tokenizer).marked]
