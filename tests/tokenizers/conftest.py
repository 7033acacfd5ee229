"""Fixtures: tokenizers of this package and of transformers, and folders of other families."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bert_keras.tokenizers import Tokenizer
from tests.tokenizers import learners
from tests.tokenizers.samples import VOCABULARY


@pytest.fixture(scope="session")
def reference() -> Callable[..., Any]:
    """Return a function that builds transformers' BertTokenizer with the options of ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers = pytest.importorskip("transformers")
        bert_tokenizer = transformers.BertTokenizer

    def build(
        vocabulary: Sequence[str],
        lowercase: bool = True,
        strip_accents: bool | None = None,
        split_cjk: bool = True,
    ) -> Any:
        return bert_tokenizer(
            vocab={token: index for index, token in enumerate(vocabulary)},
            do_lower_case=lowercase,
            strip_accents=strip_accents,
            tokenize_chinese_chars=split_cjk,
        )

    return build


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    """Return an uncased tokenizer with the small vocabulary."""
    return Tokenizer(VOCABULARY)


@pytest.fixture(scope="session")
def foreign_folders(tmp_path_factory) -> dict[str, Path]:
    """Return folders with the original vocabulary files of other families."""
    pytest.importorskip("sentencepiece")
    pytest.importorskip("transformers")
    top = tmp_path_factory.mktemp("foreign")
    for name, write in learners.FAMILIES.items():
        (top / name).mkdir()
        write(top / name)
    return {name: top / name for name in learners.FAMILIES}
