"""Small vocabularies of other families, learned with the libraries of the published ones."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.tokenizers.samples import TRICKY

SENTENCES = [
    "The lowest tower lowered the newest flower, and the newer towers were wider than low ones.",
    "She sold 1,000 shells (by the sea-shore) for £5.00 or €6 – no more, no less.",
    'A "quoted" word; an unaffable world said hello to the wanted and the unwanted.',
    "Das Wetter in München ist schön, aber die Straße bleibt naß.",
]
TEXT = [*(text for text in TRICKY if "aaa" not in text), *SENTENCES]
# Symbols that ALBERT's published model defines as pieces of their own.
SYMBOLS = ["(", ")", '"', "-", ".", "–", "£", "€"]


def byte_level(folder: Path) -> None:
    """Write RoBERTa's vocab.json and merges.txt."""
    import tokenizers
    from tokenizers import models, pre_tokenizers, trainers

    learner = tokenizers.Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=360,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    learner.train_from_iterator(TEXT, trainer)
    learner.model.save(str(folder))


def sentencepiece(folder: Path, name: str, **options: object) -> None:
    """Write a SentencePiece model."""
    import sentencepiece as library

    model = io.BytesIO()
    sentences = iter([text.replace("\0", "") for text in TEXT * 3 if text.strip()])
    library.SentencePieceTrainer.train(
        sentence_iterator=sentences,
        model_writer=model,
        minloglevel=2,
        **{
            "vocab_size": 240,
            "hard_vocab_limit": False,
            "model_type": "unigram",
            "max_sentence_length": 8192,
            **options,
        },
    )
    (folder / name).write_bytes(model.getvalue())


_ALBERT = {
    "pad_id": 0,
    "unk_id": 1,
    "bos_id": -1,
    "eos_id": -1,
    "control_symbols": ["[CLS]", "[SEP]", "[MASK]"],
}
FAMILIES: dict[str, Callable[[Path], None]] = {
    "roberta": byte_level,
    "albert": partial(sentencepiece, name="spiece.model", user_defined_symbols=SYMBOLS, **_ALBERT),
    "albert_without_symbols": partial(sentencepiece, name="spiece.model", **_ALBERT),
    "xlm_roberta": partial(sentencepiece, name="sentencepiece.bpe.model"),
}
