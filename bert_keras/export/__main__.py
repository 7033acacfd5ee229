"""Exports a checkpoint folder: `python -m bert_keras.export PRESET PATH`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from bert_keras.checkpoints import load_checkpoint
from bert_keras.checks import encoder_of
from bert_keras.errors import UsageError
from bert_keras.export.saved_model import saved_model
from bert_keras.export.tf_hub import tf_hub
from bert_keras.predictor import read_preset
from bert_keras.programs import exit_code_of
from bert_keras.tokenizers import Tokenizer


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program.

    Args:
        arguments: the command line without the program's name; None for the process's own.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser("python -m bert_keras.export", description=__doc__)
    parser.add_argument("preset", help="a folder with model and tokenizer")
    parser.add_argument("path", help="the SavedModel to write, such as saved_models/demo/1")
    parser.add_argument("--dtype", help="a Keras dtype policy, such as mixed_bfloat16")
    parser.add_argument("--format", default="saved_model", choices=("saved_model", "tf_hub"))
    parser.add_argument("--pairs", action="store_true", help="serving_default takes two texts")
    parser.add_argument("--portable", action="store_true", help="needs no tensorflow-text")
    options = parser.parse_args(arguments)
    try:
        task: Any = load_checkpoint(options.preset, dtype=options.dtype)
        length, answered = read_preset(options.preset)
        tokenizer = Tokenizer.from_preset(options.preset)
        positions = encoder_of(task, tokenizer).config.max_positions
        given = task, tokenizer, options.path
        common = {"max_length": min(length or positions, positions), "portable": options.portable}
        if options.format == "tf_hub":
            path = tf_hub(*given, **common)
        else:
            path = saved_model(*given, **common, options=answered, pairs=options.pairs)
    except Exception as error:
        is_mendable = isinstance(error, ImportError | ValueError)
        code = exit_code_of(error) or (UsageError.exit_code if is_mendable else None)
        if code is None:
            raise
        print(error, file=sys.stderr)
        return code
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
