"""Predict with a fine-tuned model, or with any checkpoint of a task.

    bert-keras predict MODEL [INPUT …] [key=value …]

MODEL is the folder of a run, a checkpoint folder, or hf://organisation/name. INPUT is a text in
quotes, a file, or - for standard input; without one, standard input. A file is a table (.csv, .tsv,
.parquet), or lines: a text or a JSON object each.

    out=                  file to write: .csv, .tsv or .jsonl, with the texts, the answers and the
                          probability of each label; without it, an answer is a line of JSON
    overwrite=false       replace the file of out=
    text=                 column or key of the text; that of the run, else text
    pair=                 column or key of a second text; that of the run, else none of a table
    question= context=    columns or keys of question answering
    prompt= options=      columns or keys of multiple choice; lead= is one too
    format=               tsv, csv, jsonl, parquet or label_text; empty: by the file's ending
    header=true           a table names its columns; else they are numbers from 0
    quoting=auto          fields of a table may be in quotes; auto: in CSV alone
    separator=            separator of the columns of a table; empty: comma in CSV, tab in TSV
    encoding=utf-8        text encoding of tables
    max_length=0          most tokens of a text; 0: what the model's folder says
    long_texts=           longer texts: truncate, or windows, which reads all; empty: as in
                          training, else truncate, and say how many texts were cut
    stride=0              tokens from the start of one window to the next; 0: three quarters of a
                          window
    batch_size=32         texts in a batch
    precision=            Keras dtype policy, such as bfloat16 or mixed_bfloat16; empty: float32
    device=               device that computes: cpu, gpu, gpu:1, …; empty: the backend's default
    threshold=0.5         multi-label classification: return the labels at least this probable
    null_threshold=       question answering: return no answer if its score exceeds the best
                          span's by more than this
    aggregation=          token classification: entities as transformers' pipeline finds them: none,
                          simple, first, average or max; empty: as in the model's folder
    prompt_name=          sentence vectors: put the model's prompt of this name before each text
    allow_pickle=false    read a pytorch_model.bin where there is no other
    variant=              variant of the weights, such as fp16: model.fp16.safetensors
    averages=false        read the moving averages in a TensorFlow checkpoint
    trust=false           read the variables of a SavedModel of Google's
    form=rows             output format: rows, or official (GLUE table, CoNLL columns, SQuAD JSON;
                          the input is then a file of that benchmark, with the keys of
                          `bert-keras evaluate`)

Examples:
    bert-keras predict runs/sst2 "A fine film."
    bert-keras predict runs/sst2 reviews.csv text=review out=labels.csv
    cat reviews.txt | bert-keras predict runs/sst2
    bert-keras predict runs/demo "The [MASK] of France is Paris."
    bert-keras predict runs/squad squad/dev.json out=answers.json form=official

Exit codes: 0 done, 2 bad arguments, 3 bad examples, 4 a damaged model, 5 no space.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from bert_keras import file_io
from bert_keras.errors import UsageError
from bert_keras.training import progress
from bert_keras.training.program_inputs import (
    input_rows,
    is_table,
    is_text,
    number_of,
    open_predictor,
    reading_of,
)
from bert_keras.training.recipe_files import parse_overrides, require_no_flags
from bert_keras.training.run import run

_COLUMNS = ("text", "pair", "question", "context", "prompt", "options", "lead")
_DEFAULTS: dict[str, Any] = {
    "out": "",
    "overwrite": False,
    **dict.fromkeys(_COLUMNS, ""),
    "format": "",
    "header": True,
    "quoting": "auto",
    "separator": "",
    "encoding": "utf-8",
    "max_length": 0,
    "long_texts": "",
    "stride": 0,
    "batch_size": 32,
    "precision": "",
    "device": "",
    "threshold": 0.5,
    "null_threshold": "",
    "aggregation": "",
    "prompt_name": "",
    "allow_pickle": False,
    "trust": False,
    "variant": "",
    "averages": False,
    "form": "rows",
}
_READING = ("format", "header", "quoting", "separator", "encoding")
_KEY = re.compile(r"[a-z_]+=")
_OFFICIAL = (".json", ".conll")
# Option of `Predictor` -> the models that take it, for messages.
_TAKERS = {
    "null_threshold": "question answering alone",
    "aggregation": "token classification alone",
    "prompt_name": "models that return sentence vectors",
}


def main(arguments: list[str]) -> int:
    """Run the program; return the exit code."""
    flags = [word for word in arguments if re.match("-[-a-z]", word)]
    require_no_flags(flags, list(_DEFAULTS))
    words = [word for word in arguments if not _KEY.match(word)]
    assigned = [word for word in arguments if _KEY.match(word)]
    if not words or words[0] == "-":
        raise UsageError(
            "The model is missing. Write: bert-keras predict MODEL [INPUT …] [key=value …]. "
            f"Received: {' '.join(arguments) or 'no arguments'}"
        )
    model, *inputs = words
    if "form=official" in assigned:
        return _official(model, inputs, [word for word in assigned if word != "form=official"])
    if [word for word in assigned if word.startswith("data=")]:
        raise UsageError(
            "The key data= was removed: an input is given without a key. Write: "
            "bert-keras predict MODEL FILE"
        )
    if "" in inputs:
        raise UsageError("An input is empty. Give a text in quotes, a file, or - for stdin.")
    values = parse_overrides(assigned, _DEFAULTS)
    if values["form"] != "rows":
        raise UsageError(f"form must be rows or official. Received: form={values['form']!r}")
    return _predict(model, inputs or ["-"], values)


def _predict(model: str, inputs: Sequence[str], values: dict[str, Any]) -> int:
    """Answer the inputs; print JSON lines, or write them to `out`. Return the exit code."""
    # Keras and its backend take seconds to import: not for a bad command line.
    from bert_keras.predictor import plain, predict_rows, records, require_new, write
    from bert_keras.training.finetuned_model import cut_texts_told, require_apart

    out = file_io.expanded(values["out"]) if values["out"] else None
    if out is not None:
        require_new(out, overwrite=values["overwrite"])
        require_apart(out, [word for word in inputs if word != "-"])
    threshold = number_of("null_threshold", values["null_threshold"])
    predictor = open_predictor(model, values)
    _set_reading(predictor, model, values)
    options = _options(predictor, model, threshold, values)
    rows = _rows(predictor, model, inputs, values)
    if "-" in inputs and sys.stdin.isatty():
        print("Reading texts from the terminal, one on each line. Ctrl+D ends.", file=sys.stderr)
    if out is None:
        with cut_texts_told(predictor):
            for _, answer in predict_rows(predictor, rows, **options):
                print(json.dumps(plain(answer), ensure_ascii=False, allow_nan=False), flush=True)
        return 0
    out.parent.mkdir(parents=True, exist_ok=True)
    with cut_texts_told(predictor), progress.task("answering") as show:
        predictor.progress = lambda done, total: show(done, total, "")
        count = write(out, records(predictor, rows, threshold=values["threshold"], **options))
    print(f"{count:,} predictions: {out}")
    return 0


def _set_reading(predictor: Any, model: str, values: dict[str, Any]) -> None:
    """Set how the predictor reads long texts, where the command line says so.

    Raises:
        UsageError: the model's method does not take the values.
    """
    reading = {name: values[name] for name in ("long_texts", "stride") if values[name]}
    if not reading:
        return
    accepted = inspect.signature(predictor.prediction_method()).parameters
    if "long_texts" not in accepted and "long_texts" in reading:
        raise UsageError(
            "long_texts= is for text classification, regression and sentence vectors. "
            f"Received: {model}, a {type(predictor.task).__name__}. Leave long_texts= out."
        )
    options = dict(predictor.options)
    if "long_texts" in reading:
        options.pop("stride", None)
    try:
        predictor.options = options | reading
        predictor._check_options()
    except ValueError as error:
        raise UsageError(str(error)) from error


def _options(
    predictor: Any, model: str, null_threshold: float | None, values: dict[str, Any]
) -> dict[str, Any]:
    """Return the keyword arguments of the method of `Predictor` that answers.

    Args:
        predictor: a `Predictor`.
        model: the model as the command line names it, for messages.
        null_threshold: by how much the score of "no answer" must win; None for the model's own.
        values: values of the command line, with `aggregation` and `prompt_name`; "" for the model's
            own.

    Raises:
        UsageError: a value is not one of the model's, or its method does not take the argument.
    """
    from bert_keras.inference import prompt_of

    task = predictor.task
    options: dict[str, Any] = {
        name: values[name] for name in ("aggregation", "prompt_name") if values[name]
    }
    if null_threshold is not None:
        options["null_threshold"] = null_threshold
    if "prompt_name" in options:
        try:  # before a text is read: the name must be one of the model's
            prompt_of(task.options, prompt_name=options["prompt_name"])
        except ValueError as error:
            raise UsageError(f"{model}, prompt_name={options['prompt_name']}: {error}") from error
    accepted = inspect.signature(predictor.prediction_method()).parameters
    if wrong := next((name for name in options if name not in accepted), None):
        raise UsageError(
            f"{wrong}= is for {_TAKERS[wrong]}. Received: {model}, a {type(task).__name__}. "
            f"Leave {wrong}= out."
        )
    if "aggregation" in options:
        try:
            predictor.options = predictor.options | {"aggregation": options["aggregation"]}
            predictor._check_options()
        except ValueError as error:
            raise UsageError(f"{model}: {error}") from error
    return options


def _rows(
    predictor: Any, model: str, inputs: Sequence[str], values: dict[str, Any]
) -> Iterator[Any]:
    """Yield the rows of all inputs."""
    from bert_keras.predictor import keys_of

    keys = keys_of(predictor.task)
    columns, reading = _columns_and_reading(model, values)
    texts = 0
    for word in inputs:
        path = file_io.expanded(word)
        texts += is_text(word)
        is_lines = word == "-" or is_text(word) or is_table(path, reading["format"])
        if not is_lines and path.suffix.lower() in _OFFICIAL:
            raise UsageError(
                f"{path}: a benchmark's own format is read with form=official only. Give "
                "form=official and out=FILE."
            )
        yield from input_rows(word, keys, columns, reading, name=f"text {texts}")


def _columns_and_reading(
    model: str, values: dict[str, Any]
) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the names of columns, and options of tables: those given, else those of the run."""
    from bert_keras.training.finetune_recipe import usual_values
    from bert_keras.training.run_folder import is_pretraining_run, recipe_of

    folder = file_io.expanded(model)
    recipe = None if is_pretraining_run(folder) else recipe_of(folder)
    usual, merged = usual_values(), dict(values)
    for name in (*_COLUMNS, *_READING):
        if recipe is not None and values[name] == _DEFAULTS[name] and name in usual:
            merged[name] = getattr(recipe, name)
    return {name: merged[name] for name in _COLUMNS}, reading_of(merged)


def _official(model: str, inputs: Sequence[str], assigned: Sequence[str]) -> int:
    """Predict a file of a benchmark, and write the form that is official for it."""
    from bert_keras.training.finetune_data import read
    from bert_keras.training.finetuned_model import open_finetuned, require_apart

    if len(inputs) != 1:
        raise UsageError(
            f"form=official reads exactly one file. Received: {len(inputs)} inputs. Write: "
            "bert-keras predict MODEL FILE out=FILE form=official"
        )
    overwrite = "overwrite=true" in assigned
    words = [word for word in assigned if not word.startswith("overwrite=")]
    opened = open_finetuned(
        [model, f"data={inputs[0]}", *words], "predict", ("data", "out"), measures=False
    )
    finetuning, source = opened.finetuning, opened.program_values["data"]
    out = file_io.expanded(opened.program_values["out"])
    if out.is_dir():
        raise UsageError(f"{out} is a folder. Choose a file with out=FILE.")
    require_apart(out, [source])
    if out.is_file() and not overwrite:
        raise UsageError(
            f"{out} exists. Choose another file with out=FILE, or give overwrite=true."
        )
    out.parent.mkdir(parents=True, exist_ok=True)  # now, not when all is answered
    data = read(finetuning, source, labelled=False)
    with opened.shown():
        predictions = finetuning.predict(opened.predictor, data)
    finetuning.write(out, data, predictions)
    print(f"{len(data):,} predictions: {out}")
    return 0


if __name__ == "__main__":
    run(main)
