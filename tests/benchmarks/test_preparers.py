"""All contenders make the same tokens of a text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import preparers
from benchmarks.contest import untuned
from bert_keras import Tokenizer

TEXT = "Anna lives in Rome. Paul met her there.\nIt rained.\n\nThe sun shone. Nobody minded.\n"


@pytest.fixture
def given(tmp_path: Path) -> dict[str, str]:
    file = tmp_path / "text.txt"
    file.write_text(20 * f"{TEXT}\n", encoding="utf-8")
    tokenizer = Tokenizer.train([TEXT.splitlines()], vocab_size=60)
    tokenizer.save_to_preset(tmp_path / "tokenizer")
    return {"file": str(file), "tokenizer": str(tmp_path / "tokenizer")}


@pytest.fixture
def tokens(given: dict[str, str]) -> int:
    """Return the number of tokens of the whole file, which our tokenizer reads as one text."""
    tokenizer = Tokenizer.from_preset(given["tokenizer"])
    return len(tokenizer.text_ids([Path(given["file"]).read_text(encoding="utf-8")])[0])


def test_ours(given: dict[str, str], tokens: int) -> None:
    run = preparers.ours(**given, workers=1)
    for _ in range(2):  # each round makes a new store
        figures = run()
        assert figures["tokens"] == tokens
        assert figures["seconds"] > 0


def test_the_tokenizers_library(given: dict[str, str], tokens: int) -> None:
    assert preparers.tokenizers(**given)()["tokens"] == tokens


def test_keras_hub(given: dict[str, str], tokens: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorflow")
    pytest.importorskip("keras_hub")
    read: list[Any] = []

    def watched(dataset: Any) -> Any:
        read.append(untuned(dataset))
        return read[-1]

    monkeypatch.setattr(preparers, "untuned", watched)
    places = given["file"], given["tokenizer"]
    assert preparers.keras_hub(*places)()["tokens"] == tokens
    specials = 2 * 60  # [CLS] and [SEP] of each paragraph
    masked = preparers.keras_hub(*places, masks=True)
    assert masked()["tokens"] == tokens + specials
    assert [dataset.options().autotune.enabled for dataset in read] == [False, False]


def test_figures(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_bytes(b"x" * 2_000_000)
    figures = preparers.figures(str(tmp_path / "text.txt"), 4.0, 800)
    assert figures["megabytes_per_second"] == 0.5
    assert figures["tokens_per_second"] == 200
