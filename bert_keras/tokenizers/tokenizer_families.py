"""Tokenizers of model families: a row of values for what their vocabulary files do not state.

A tokenizer.json states everything itself. The rows are for folders that have only the files of
transformers' earlier classes: vocab.txt, vocab.json with merges.txt, or a SentencePiece model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bert_keras.tokenizers.encoding import ALBERT, BERT, MPNET, ROBERTA, Scheme

VOCABULARY, PIECES = "vocab.txt", "vocab.json"
ALBERT_MODEL, FAIRSEQ_MODEL = "spiece.model", "sentencepiece.bpe.model"
DEBERTA_MODEL, REMBERT_MODEL = "spm.model", "sentencepiece.model"
SENTENCEPIECE_MODELS = (ALBERT_MODEL, FAIRSEQ_MODEL, DEBERTA_MODEL, REMBERT_MODEL)


class Family(NamedTuple):
    """Values of a tokenizer. Those from `normalization` on are for SentencePiece alone.

    Attributes:
        file: name of the vocabulary file.
        scheme: special tokens and their places around texts.
        mask_takes_space: True if the mask token in a text includes the space before it.
        normalization: steps in order: "quotes" (`` and '' become "), "accents" (removed unless the
            folder keeps them), "lowercase" (if the folder says so), "strip" (spaces around the
            text), "character_map" (the rules of the model file), "spaces" (several become one).
        splits_words: True to split at white space before the model reads the text.
        keeps_accents: True if accents stay unless the folder states `keep_accents`.
        lowercase: True to lower-case unless the folder states `do_lower_case`.
        first_pieces: (piece, log probability) of the first ids, in place of `replaced`.
        replaced: first pieces of the model file, which get no id.
        appends_mask: True if the mask token follows the last piece.
        splits_digit_commas: True if a piece such as "10," is never chosen.
    """

    file: str
    scheme: Scheme = BERT
    mask_takes_space: bool = True
    normalization: tuple[str, ...] = ("character_map",)
    splits_words: bool = True
    keeps_accents: bool = True
    lowercase: bool = False
    first_pieces: tuple[tuple[str, float], ...] = ()
    replaced: tuple[str, ...] = ()
    appends_mask: bool = False
    splits_digit_commas: bool = False


_NEVER = -100.0  # log probability of a piece that is not to be chosen
# Name of a class in transformers, without "Tokenizer" or "TokenizerFast" -> its values. The first
# family with a file is the one of a folder that states none.
FAMILIES: Mapping[str, Family] = {
    **dict.fromkeys(("Bert", "DistilBert", "Electra"), Family(VOCABULARY)),
    "MPNet": Family(VOCABULARY, MPNET),
    "Roberta": Family(PIECES, ROBERTA),
    "Deberta": Family(PIECES),
    "Albert": Family(
        ALBERT_MODEL,
        ALBERT,
        normalization=("quotes", "accents", "lowercase", "character_map"),
        keeps_accents=False,
        lowercase=True,
        splits_digit_commas=True,
    ),
    "XLMRoberta": Family(
        FAIRSEQ_MODEL,
        ROBERTA,
        first_pieces=(("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)),
        replaced=("<unk>", "<s>", "</s>"),
        appends_mask=True,
    ),
    "Camembert": Family(
        FAIRSEQ_MODEL,
        ROBERTA,
        first_pieces=(
            *(("<s>NOTUSED", 0.0), ("<pad>", 0.0), ("</s>NOTUSED", 0.0), ("<unk>", 0.0)),
            ("<unk>NOTUSED", _NEVER),
        ),
        replaced=("<unk>",),
        appends_mask=True,
    ),
    "DebertaV2": Family(
        DEBERTA_MODEL,
        mask_takes_space=False,
        normalization=("lowercase", "strip", "character_map", "spaces"),
        splits_words=False,
        appends_mask=True,
    ),
    "RemBert": Family(
        REMBERT_MODEL,
        ALBERT,
        normalization=("quotes", "spaces", "accents", "lowercase", "character_map"),
        splits_words=False,
    ),
}
# Name prefixes of classes in transformers that use any tokenizer.json unchanged.
GENERAL = ("PreTrainedTokenizer", "TokenizersBackend")
# `model_type` of config.json -> family. Published folders of these may name no tokenizer class.
MODEL_TYPES: Mapping[str, str] = {
    "albert": "Albert",
    "camembert": "Camembert",
    "deberta": "Deberta",
    "mpnet": "MPNet",
    "deberta-v2": "DebertaV2",
    "rembert": "RemBert",
    "roformer": "RoFormer",
    "xlm-roberta": "XLMRoberta",
    "xlm-roberta-xl": "XLMRoberta",
}
# Family -> step of its tokenizer that no file of the folder has. Such a family is refused.
REFUSED: Mapping[str, str] = {
    "RoFormer": "splits Chinese into words with the package rjieba",
    "Bertweet": "normalises tweets and emoji, and splits words by fastBPE",
    "Phobert": "splits words by fastBPE, after a program that finds Vietnamese words",
    "BertJapanese": "splits words with MeCab, Sudachi or Juman++",
}


def family_name(tokenizer_class: object, model_type: object) -> str | None:
    """Return the family of a folder, a key of `FAMILIES` or `REFUSED`; None if it is not known.

    Args:
        tokenizer_class: class that the folder states; None if it states none.
        model_type: `model_type` of config.json. It decides if the class is no family's own.
    """
    name = str(tokenizer_class).removesuffix("Fast").removesuffix("Tokenizer")
    if name in FAMILIES or name in REFUSED:
        return name
    is_general = tokenizer_class is None or str(tokenizer_class).startswith(GENERAL)
    family = MODEL_TYPES.get(str(model_type)) if is_general else None
    # A general class has no steps of its own: such a folder has another tokenizer than its family.
    return None if tokenizer_class is not None and family in REFUSED else family


KNOWN_CLASSES = (
    *GENERAL,
    "PreTrainedTokenizerFast",
    *(f"{name}Tokenizer{ending}" for name in FAMILIES for ending in ("", "Fast")),
)


def families_with(file: str) -> list[str]:
    """Return the families whose vocabulary file has this name, the usual one first."""
    return [name for name, family in FAMILIES.items() if family.file == file]
