"""Tiny model folders written by sentence-transformers, and texts for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bert_keras import Tokenizer

WORDS = [*(f"w{n}" for n in range(40)), "query", "passage", ":", "é"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
LENGTH, HIDDEN = 24, 8
PROMPTS = {"query": "query: ", "passage": "passage w1 w2: "}


def texts(count: int = 100) -> list[str]:
    """Return random texts of many lengths; some exceed the maximum length of the models."""
    draw = np.random.default_rng(0)
    return [" ".join(draw.choice(WORDS, draw.integers(1, LENGTH + 6))) for _ in range(count)]


def write_transformer(folder: Path, head: str = "Model", **values: Any) -> Path:
    """Write a Transformers BERT model and its tokenizer.

    Args:
        folder: the folder to write.
        head: the end of the class name, such as "ForMaskedLM".
        values: further values of the config.
    """
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=HIDDEN,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=LENGTH,
        initializer_range=0.3,
        **values,
    )
    Tokenizer(VOCABULARY).save_to_preset(folder)
    getattr(transformers, f"Bert{head}")(config).eval().save_pretrained(folder)
    return folder


def _vectors(
    *modules: tuple[str, dict[str, Any]], length: int | None = None, **options: Any
) -> Any:
    """Return a function that writes a sentence encoder with these modules after the transformer."""

    def write(library: Any, base: Path, folder: Path) -> np.ndarray:
        import torch

        classes = library.sentence_transformer.modules
        transformer = classes.Transformer(str(base))
        if length:
            transformer.max_seq_length = length
        torch.manual_seed(1)
        behind = [getattr(classes, kind)(**arguments) for kind, arguments in modules]
        model = library.SentenceTransformer(modules=[transformer, *behind], device="cpu", **options)
        model.save(str(folder))
        return library.SentenceTransformer(str(folder), device="cpu").encode(texts())

    return write


def _pooling(mode: Any, **options: Any) -> tuple[str, dict[str, Any]]:
    return "Pooling", {"embedding_dimension": HIDDEN, "pooling_mode": mode, **options}


def _dense(inputs: int, outputs: int, **options: Any) -> tuple[str, dict[str, Any]]:
    return "Dense", {"in_features": inputs, "out_features": outputs, **options}


def _scores(count: int, **options: Any) -> Any:
    """Return a function that writes a cross-encoder with `count` scores."""

    def write(library: Any, base: Path, folder: Path) -> np.ndarray:
        source = write_transformer(
            base.with_name(f"classifier_{count}"), "ForSequenceClassification", num_labels=count
        )
        library.CrossEncoder(str(source), device="cpu", **options).save(str(folder))
        pairs = [list(pair) for pair in zip(texts(), texts()[::-1], strict=True)]
        return library.CrossEncoder(str(folder), device="cpu").predict(pairs)

    return write


_NORMALIZE: tuple[str, dict[str, Any]] = ("Normalize", {})
_BOTH = {"prompts": PROMPTS, "default_prompt_name": "passage"}
# Each function writes a folder, and returns the outputs of sentence-transformers for `texts` or
# pairs of them.
VECTORS: dict[str, Callable[[Any, Path, Path], np.ndarray]] = {
    "plain": _vectors(_pooling("mean"), _NORMALIZE, length=13),
    "default prompt": _vectors(_pooling("mean"), **_BOTH),
    "prompt not pooled": _vectors(
        _pooling(["cls", "mean", "max", "weightedmean", "lasttoken"], include_prompt=False), **_BOTH
    ),
    "dense": _vectors(_pooling("cls"), _dense(HIDDEN, 6), _dense(6, 5, bias=False), _NORMALIZE),
    "residual": _vectors(
        _pooling("mean"), _dense(HIDDEN, 5, use_residual=True), _dense(5, 5, use_residual=True)
    ),
    "last token": _vectors(_pooling("lasttoken")),
    "weighted mean": _vectors(_pooling("weightedmean"), similarity_fn_name="dot"),
    "several poolings": _vectors(_pooling(["max", "cls", "mean_sqrt_len_tokens"])),
    "truncated": _vectors(
        _pooling("mean"), _NORMALIZE, truncate_dim=5, similarity_fn_name="manhattan"
    ),
}
SCORES: dict[str, Callable[[Any, Path, Path], np.ndarray]] = {
    "one score": _scores(1),
    "three scores": _scores(3),
    "prompted score": _scores(1, **_BOTH),
}
KINDS = {**VECTORS, **SCORES}


def write_splade(library: Any, base: Path, folder: Path) -> None:
    """Write a sparse encoder (SPLADE)."""
    source = write_transformer(base.with_name("masked"), "ForMaskedLM")
    library.SparseEncoder(str(source), device="cpu").save(str(folder))


def write_colbert(library: Any, base: Path, folder: Path) -> None:
    """Write an encoder with one vector for each token (ColBERT)."""
    library.MultiVectorEncoder(str(base), device="cpu").save(str(folder))


OTHERS = {"SparseEncoder": write_splade, "MultiVectorEncoder": write_colbert}
