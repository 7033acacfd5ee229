"""Size, accuracy and speed of exported models, beside `Predictor` and transformers.

    python -m benchmarks.exported --sst2 RUN --sentences PRESET --data DIR [--out exported.json]

RUN is a model fine-tuned on SST-2, and PRESET is a sentence encoder. DIR holds sst2/glue_dev.tsv
and stsb/official_dev.tsv. Every export predicts both dev sets. The SST-2 model is timed from text
to answer, in batches of 1 and 32, with all formats in turn. The figures are medians of three
rounds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import report
from bert_keras import Predictor, export
from bert_keras.data import read_table
from bert_keras.export.runtimes.formats import FORMATS
from bert_keras.metrics import spearman

VARIANTS = [
    ("saved_model", None),
    *(
        (name, quantization)
        for name in FORMATS
        for quantization in (None, *FORMATS[name].quantizers)
    ),
]
PACKAGES = (
    *("bert-keras", "keras", "tensorflow", "torch", "jax", "onnxruntime", "openvino"),
    *("ai-edge-litert", "transformers"),
)
ROUNDS = 3
Columns = Mapping[str, Sequence[Any]]
Answer = Callable[[Columns], dict[str, np.ndarray]]


def exported(predictor: Predictor, folder: Path, name: str, quantization: str | None) -> Path:
    """Export the model in a format into a new folder, and return its path."""
    path = folder / f"{name}-{quantization}"
    model = predictor.task, predictor.tokenizer, path
    common: dict[str, Any] = {"max_length": predictor.max_length}
    if name == "saved_model":
        return export.saved_model(*model, **common)
    return export.runtime_model(*model, name, quantization=quantization, **common)


def accuracy(answer: Answer, texts: list[str], targets: np.ndarray, names: list[str]) -> float:
    """Return the share of texts whose predicted label is correct.

    Args:
        answer: function that predicts scores or names of labels.
        texts: the texts.
        targets: index of the correct label of each text.
        names: label names.
    """
    predictions = []
    for start in range(0, len(texts), 32):
        outputs = answer({"text": texts[start : start + 32]})
        if outputs["label"].dtype.kind == "f":
            predictions += outputs["label"].argmax(axis=1).tolist()
        else:
            predictions += [names.index(label.decode()) for label in outputs["label"]]
    return float(np.mean(np.array(predictions) == targets))


def correlation(answer: Answer, firsts: list[str], seconds: list[str], scores: Any) -> float:
    """Return Spearman's correlation of cosine similarities with human scores.

    Args:
        answer: function that returns sentence vectors.
        firsts: first text of each pair.
        seconds: second text of each pair.
        scores: human score of each pair.
    """
    sides = []
    for texts in (firsts, seconds):
        parts = [
            answer({"text": texts[start : start + 32]})["sentence_vector"]
            for start in range(0, len(texts), 32)
        ]
        vectors = np.concatenate(parts)
        sides.append(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    return float(spearman(scores, (sides[0] * sides[1]).sum(axis=1)))


def transformers_of(folder: str) -> Answer:
    """Return a function that predicts with transformers on PyTorch, with its own tokenizer.

    Args:
        folder: folder of the checkpoint, which our `Predictor` opens too.
    """
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()

    def answer(columns: Columns) -> dict[str, np.ndarray]:
        inputs = tokenizer(columns["text"], padding=True, truncation=True, return_tensors="pt")
        with torch.inference_mode():
            return {"label": model(**inputs).logits.numpy()}

    return answer


def ours_of(predictor: Predictor) -> Answer:
    """Return a function that predicts label scores with `Predictor`, on this Keras backend."""

    def answer(columns: Columns) -> dict[str, np.ndarray]:
        return {"label": predictor.predict_scores(columns["text"])}

    return answer


def vectors_of(predictor: Predictor) -> Answer:
    """Return a function that computes sentence vectors with `Predictor`."""
    return lambda columns: {"sentence_vector": predictor.encode(columns["text"])}


def timed(answers: dict[str, Answer], columns: Columns) -> dict[str, dict[int, list[float]]]:
    """Return p50 and p99 of the latency in milliseconds, as medians over the rounds.

    Args:
        answers: functions that predict, by name of the format.
        columns: texts to predict.

    Returns:
        [p50, p99] by name and batch size.
    """
    rounds: dict[str, list[dict[int, Any]]] = {name: [] for name in answers}
    for _ in range(ROUNDS):
        for name, answer in answers.items():
            rounds[name].append(export.latencies(answer, columns))
    return {
        name: {
            size: [
                statistics.median(getattr(each[size], key) for each in latencies)
                for key in ("p50", "p99")
            ]
            for size in latencies[0]
        }
        for name, latencies in rounds.items()
    }


def results(options: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    """Measure all formats, and return a row of figures for each."""
    sst2 = read_table(options.data / "sst2" / "glue_dev.tsv", text="content", label="label")
    stsb = read_table(
        options.data / "stsb" / "official_dev.tsv",
        text="sentence1",
        pair="sentence2",
        label="score",
        problem="regression",
    )
    texts, pairs, scores = (
        list(sst2.texts),
        (list(stsb.texts), list(stsb.pairs or ())),
        stsb.targets,
    )
    labels = Predictor.from_preset(options.sst2)
    vectors = Predictor.from_preset(options.sentences)
    names = labels.label_names
    targets = np.array([names.index(str(label)) for label in sst2.targets or ()])
    backend = keras.backend.backend()
    answers: dict[str, Answer] = {
        f"Predictor ({backend})": ours_of(labels),
        "transformers (PyTorch)": transformers_of(options.sst2),
    }
    rows = {
        name: {"name": name, "accuracy": accuracy(answer, texts, targets, names)}
        for name, answer in answers.items()
    }
    rows[f"Predictor ({backend})"]["spearman"] = correlation(vectors_of(vectors), *pairs, scores)
    with tempfile.TemporaryDirectory() as scratch, console.status("") as status:
        for name, quantization in VARIANTS:
            title = " ".join(filter(None, (name, quantization)))
            status.update(title)
            path = exported(labels, Path(scratch, "sst2"), name, quantization)
            client = export.open_client(path)
            answers[title] = client.answer
            sentences = exported(vectors, Path(scratch, "stsb"), name, quantization)
            rows[title] = {
                "name": title,
                "bytes": export.size_of(path),
                "difference": export.difference(client, labels, {"text": texts[:200]}),
                "accuracy": accuracy(client.answer, texts, targets, names),
                "spearman": correlation(export.open_client(sentences).answer, *pairs, scores),
            }
            console.print(rows[title])
        for name, latency in timed(answers, {"text": texts[:200]}).items():
            rows[name]["milliseconds"] = latency
    return list(rows.values())


def show(rows: list[dict[str, Any]], console: Console) -> None:
    """Print a table with a row for each format."""
    table = Table("format", "MB", "difference", "SST-2", "STS-B", "batch of 1", "batch of 32")
    for row in rows:
        latency = [f"{p50:.1f} / {p99:.1f}" for p50, p99 in row["milliseconds"].values()]
        size, gap = row.get("bytes"), row.get("difference")
        table.add_row(
            row["name"],
            f"{size / 1e6:.1f}" if size else "",
            f"{gap:.2g}" if gap is not None else "",
            f"{100 * row['accuracy']:.2f}",
            f"{100 * row['spearman']:.2f}" if "spearman" in row else "",
            *latency,
        )
    console.print(table)


def main() -> None:
    """Measure all formats, print a table, and write a report."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.exported", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--sst2", required=True, help="a model fine-tuned on SST-2")
    parser.add_argument("--sentences", required=True, help="a sentence encoder")
    parser.add_argument("--data", type=Path, required=True, help="the folder of the dev sets")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    options, console = parser.parse_args(), Console()
    rows = results(options, console)
    show(rows, console)
    report.write(
        options.out,
        "python -m benchmarks.exported --sst2 RUN --sentences PRESET --data DIR",
        PACKAGES,
        backend=keras.backend.backend(),
        results=rows,
    )


if __name__ == "__main__":
    main()
