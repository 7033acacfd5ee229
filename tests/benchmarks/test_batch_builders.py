"""Every measured builder makes the batches that its name promises."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.batch_builders import from_corpus, masking_alone, synthetic
from bert_keras.data import PretrainingExamples

SIZES: dict[str, Any] = {"sequence_length": 32, "batch_size": 4}


@pytest.mark.parametrize("peer", ["transformers", "keras_hub"])
def test_the_peers_are_there(peer: str) -> None:
    pytest.importorskip(peer)
    corpus, tokenizer = synthetic(400)
    names = {
        builder.name for builder in masking_alone(PretrainingExamples(corpus, tokenizer, **SIZES))
    }
    assert any(peer.replace("_", "") in name.lower().replace("_", "") for name in names), names


@pytest.mark.filterwarnings("ignore:.*left out")  # warns if a peer is not installed
def test_each_gives_batches() -> None:
    corpus, tokenizer = synthetic(400)
    examples = PretrainingExamples(corpus, tokenizer, **SIZES)
    for builder in [*from_corpus(corpus, tokenizer, **SIZES), *masking_alone(examples)]:
        first, second = builder.build(0), builder.build(1)
        assert first is not None, builder.name
        assert second is not None, builder.name
