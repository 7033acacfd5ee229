"""Exports a checkpoint folder, for `second_process`. For people there is `bert-keras export`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from bert_keras import escaping
from bert_keras.errors import UsageError
from bert_keras.export.preset import ALL, Wanted, export_as, open_preset
from bert_keras.programs import exit_code_of, quiet


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program.

    Args:
        arguments: the command line without the program's name; None for the process's own.

    Returns:
        The exit code.
    """
    quiet()
    parser = argparse.ArgumentParser("python -m bert_keras.export", description=__doc__)
    parser.add_argument("preset", help="a folder with model and tokenizer")
    parser.add_argument("path", help="the folder to write, such as saved_models/demo/1")
    parser.add_argument("--dtype", help="a Keras dtype policy, such as mixed_bfloat16")
    parser.add_argument("--format", default=ALL[0], choices=ALL)
    parser.add_argument(
        "--output",
        action="append",
        default=[],
        choices=("hidden_states", "attentions"),
        help="also of an encoder; may be given several times",
    )
    parser.add_argument("--quantization", help="float16, int8 or int8_dynamic")
    parser.add_argument("--portable", action="store_true", help="needs no tensorflow-text")
    options = parser.parse_args(arguments)
    try:
        wanted = Wanted(options.format, options.quantization, options.portable)
        outputs: dict[str, Any] = dict.fromkeys(options.output, True)
        predictor = open_preset(options.preset, dtype=options.dtype, **outputs)
        path = export_as(wanted, predictor, options.path)
    except Exception as error:
        is_mendable = isinstance(error, ImportError | ValueError | TypeError)
        code = exit_code_of(error) or (UsageError.exit_code if is_mendable else None)
        if code is None:
            raise
        print(error, file=sys.stderr)
        return code
    escaping.print_line(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
