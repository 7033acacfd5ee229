"""Distil and quantise: a classifier with half the layers, and its weights in int8.

python -m examples.distil_and_quantise reviews.csv --model review_classifier
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from keras.layers import Dense, Embedding

import bert_keras as bk
from bert_keras.data import dataset, read_table, text_examples
from examples import classify_reviews, program


def main(arguments: Sequence[str] | None = None) -> None:
    """Train a student on the answers of a teacher, quantise it, and print sizes and accuracies."""
    asked = program.arguments(__doc__, arguments, data="reviews.csv", model="review_classifier")
    if asked.quick:
        classify_reviews.main(["--quick"])
        rows = [f"A {word} film.,{word}" for word in ("bad", "good") * 32]
        asked.data = program.file("reviews.csv", ["text,label", *rows])
    reviews = read_table(asked.data, text="text", label="label")
    labels = sorted(set(reviews.targets))
    teacher = bk.SequenceClassifier.from_preset(asked.model)
    smaller = teacher.encoder.keep_layers(range(0, teacher.encoder.config.num_layers, 2))
    student = bk.SequenceClassifier(smaller, labels=labels, tokenizer=teacher.tokenizer)
    batches = dataset(text_examples(teacher.tokenizer, reviews, labels=labels, max_length=128))
    distiller = bk.Distiller(student, teacher, temperature=2.0, alpha=0.5)
    rule = bk.optimizer(asked.rate or 1e-4, total_steps=3 * len(batches))
    distiller.compile(rule, **distiller.loss_and_metrics())
    distiller.fit(batches, epochs=3, verbose=2)
    for name, model in {"teacher": teacher, "student": student, "int8": student}.items():
        if name == "int8":
            model.quantize("int8", filters=lambda layer: isinstance(layer, Dense | Embedding))
        model.save(f"{name}.keras")
        answers = [answer.label for answer in model.predict_labels(reviews.texts)]
        right = sum(map(str.__eq__, answers, reviews.targets)) / len(answers)
        print(f"{name}: {Path(f'{name}.keras').stat().st_size / 1e6:.2f} MB, accuracy {right:.3f}")


if __name__ == "__main__":
    main()
