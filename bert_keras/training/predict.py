"""Predicts with a fine-tuned model for examples whose labels are not known.

    bert-keras predict RUN data=FILE out=FILE [key=value …]

RUN is the folder of a fine-tuning run, whose values are used again, or any checkpoint of a task (a
folder, or hf://organisation/name). key=value changes how FILE is read: text=, pair=, format= and
the like; an unknown key lists them all. Labels in FILE are not looked for.

Examples:
    bert-keras predict runs/sst2 data=sst2/test.tsv out=SST-2.tsv
    bert-keras predict runs/squad data=squad/dev.json out=answers.json

out= is written in the form that is official for the task: GLUE's table of index and prediction,
CoNLL's columns, SQuAD's JSON of answers by id.
Exit codes: 0 done, 2 bad arguments, 3 bad examples, 4 a damaged model, 5 no space.
"""

from __future__ import annotations

from bert_keras import atomic
from bert_keras.errors import UsageError
from bert_keras.training.run import run


def main(arguments: list[str]) -> int:
    """Runs the program; returns the exit code."""
    # Keras and its backend take seconds to import: not for --help.
    from bert_keras.training.finetune_data import read
    from bert_keras.training.finetuned import open_finetuned, require_apart

    opened = open_finetuned(arguments, "predict", ("data", "out"), measures=False)
    kind, source = opened.kind, opened.own["data"]
    out = atomic.expanded(opened.own["out"])
    if out.is_dir():
        raise UsageError(f"{out} is a folder. Choose a file with out=FILE.")
    require_apart(out, [source])
    out.parent.mkdir(parents=True, exist_ok=True)  # now, not when all is answered
    data = read(kind, source, labelled=False)
    with opened.shown():
        predictions = kind.predict(opened.predictor, data)
    kind.write(out, data, predictions)
    print(f"{len(data):,} predictions: {out}")
    return 0


if __name__ == "__main__":
    run(main)
