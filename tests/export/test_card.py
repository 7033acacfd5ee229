"""The page beside a model."""

from __future__ import annotations

from pathlib import Path

from bert_keras.export import card
from bert_keras.models import BertEncoder, QuestionAnswerer, SentenceEncoder, SequenceClassifier
from bert_keras.predictor import Predictor
from bert_keras.tokenizers import Tokenizer
from tests.contracts import TINY

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]


def test_names() -> None:
    assert card.name_of(Path("models/demo/3")) == "demo"
    assert card.name_of(Path("models/demo")) == "demo"


def test_what_it_says(tmp_path: Path) -> None:
    task = SequenceClassifier(BertEncoder(TINY), 2, labels=["gut", "schlecht"])
    predictor = Predictor(task, Tokenizer(VOCABULARY), options={"top_k": 1})
    card.write(predictor, tmp_path, tmp_path / "demo" / "3", {"run": (["ids"], ["label"])}, by="X.")
    assert (tmp_path / card.LABELS).read_text(encoding="utf-8") == "gut\nschlecht\n"
    page = (tmp_path / card.CARD).read_text(encoding="utf-8")
    assert page.startswith("# demo\n\nA SequenceClassifier of ")
    for part in ("read to 12 tokens of a vocabulary of 6", "with top_k=1", "X. Written by"):
        assert part in page
    assert "| `run` | `ids` | `label` |" in page


def test_no_labels_no_file(tmp_path: Path) -> None:
    predictor = Predictor(QuestionAnswerer(BertEncoder(TINY)), Tokenizer(VOCABULARY))
    card.write(predictor, tmp_path, tmp_path, {})
    assert [path.name for path in tmp_path.iterdir()] == [card.CARD]


def test_what_it_says_of_prompts(tmp_path: Path) -> None:
    prompts = {"query": "find: ", "passage": ""}
    task = SentenceEncoder(
        BertEncoder(TINY), prompts=prompts, default_prompt_name="query", similarity="dot"
    )
    card.write(Predictor(task, Tokenizer(VOCABULARY)), tmp_path, tmp_path / "demo", {})
    page = (tmp_path / card.CARD).read_text(encoding="utf-8")
    assert "Before each text it reads the prompt 'find: '." in page
    assert f"prompts={prompts!r}, similarity='dot'" in page
