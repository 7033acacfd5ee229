"""Exports a checkpoint folder: `python -m bert_keras.export PRESET PATH`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from bert_keras.checkpoints import load_checkpoint
from bert_keras.errors import ArtifactError, DataError, NumericError, ResourceError, UsageError
from bert_keras.export.saved_model import saved_model
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
    parser.add_argument("--max-length", type=int, help="texts are cut at so many tokens")
    parser.add_argument("--top-k", type=int, default=5, help="fills for each mask")
    parser.add_argument("--dtype", help="a Keras dtype policy, such as mixed_bfloat16")
    options = parser.parse_args(arguments)
    try:
        path = saved_model(
            load_checkpoint(options.preset, dtype=options.dtype),
            Tokenizer.from_preset(options.preset),
            options.path,
            max_length=options.max_length,
            top_k=options.top_k,
        )
    except (ArtifactError, DataError, UsageError, NumericError, ResourceError) as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(error, file=sys.stderr)
        return ResourceError.exit_code
    except (ImportError, ValueError) as error:
        print(error, file=sys.stderr)
        return UsageError.exit_code
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
