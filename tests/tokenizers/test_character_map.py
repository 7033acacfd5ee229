"""Normalisation rules are read as the library reads them, and clusters are those of the library."""

from __future__ import annotations

import numpy as np
import pytest
from tokenizers import normalizers

from bert_keras.tokenizers import character_map as cm
from tests.tokenizers.subwords import RULES


def test_rules_are_written_and_read() -> None:
    rules = {"a": "xy", "b\u0301": "", "é": "e"}
    content = cm.write_rules(rules)
    assert cm.read_rules(content) == rules
    assert normalizers.Precompiled(content).normalize_str("ab\u0301é-b") == "xye-b"


@pytest.mark.parametrize("content", [b"", b"\xff" * 40, cm.write_rules({"a": "b"})[:-1]])
def test_damaged_rules_are_named(content: bytes) -> None:
    with pytest.raises(ValueError, match="damaged normalisation rules"):
        cm.read_rules(content)


def test_rules_of_sentencepiece() -> None:
    """Every rule of a real file is found, and each single character is replaced by its own."""
    pytest.importorskip("sentencepiece")
    import io

    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    model = io.BytesIO()
    options = {"vocab_size": 20, "hard_vocab_limit": False, "minloglevel": 2}
    sentences = iter(["a few words of a text"] * 4)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=sentences, model_writer=model, **options
    )
    proto = getattr(sentencepiece_model_pb2, "ModelProto")()  # noqa: B009
    proto.ParseFromString(model.getvalue())
    content = proto.normalizer_spec.precompiled_charsmap
    rules = cm.read_rules(content)
    assert len(rules) > 100_000
    clusters = cm.ClusterRules.of(rules)
    normalizer = normalizers.Precompiled(content)
    for text in [*clusters.single][::7]:
        assert normalizer.normalize_str(text) == clusters.single[text], ascii(text)
    for text in [*clusters.several][::7]:
        assert normalizer.normalize_str(text) == clusters.several[text], ascii(text)


def test_rules_for_clusters() -> None:
    rules = cm.ClusterRules.of({"a": "x", "a\u0301": "y", "e\u0301": "é", "\0": "z", "中国": "c"})
    assert rules.single == {"a": "x"}
    assert rules.several == {"e\u0301": "é"}  # of "a\u0301", the shorter beginning has a rule
    assert cm.ClusterRules.of(RULES).several == {"e\u0301": "é"}


def test_properties() -> None:
    properties = cm.cluster_properties()

    def has(bit: int, text: str) -> list[bool]:
        return [bool(properties[ord(c)] & bit) for c in text]

    assert has(cm.CONTROL, "\n\r\0\u200ba") == [True] * 4 + [False]
    assert has(cm.JOINS, "\u0301\u0302\u200d\u0903a\u0600") == [True] * 4 + [False] * 2
    assert has(cm.PREPEND, "\u0600\u06dda\u0301") == [True, True, False, False]
    assert has(cm.PICTOGRAPH, "\u00a9\U0001f468a") == [True, True, False]
    assert has(cm.EXTEND, "\u0301\u00a9a") == [True, False, False]
    assert has(cm.LINKER, "\u094d\u0301") == [True, False]
    hangul = properties >> cm.HANGUL_SHIFT
    kinds = [int(hangul[ord(c)]) for c in "\u1100\u1161\u11a8가각x\u0301\u0915"]
    assert kinds == [cm.LEADING, cm.VOWEL, cm.TRAILING, cm.LV, cm.LVT, 0, 0, 0]
    assert np.count_nonzero(hangul) > 11_172
