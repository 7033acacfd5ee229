"""Serve a SavedModel: export a model that takes strings, and call it without this package.

python -m examples.serve_saved_model --model review_classifier  (a fine-tuned classifier, such as
the one of classify_reviews; docs/exporting.md shows TensorFlow Serving)
"""

from __future__ import annotations

from collections.abc import Sequence

import bert_keras as bk
from examples import classify_reviews, program


def main(arguments: Sequence[str] | None = None) -> None:
    """Export a classifier, open the SavedModel with TensorFlow and print its answers."""
    asked = program.arguments(
        __doc__, arguments, data="saved_models/reviews/1", model="review_classifier"
    )
    if asked.quick:
        classify_reviews.main(["--quick"])
    classifier = bk.SequenceClassifier.from_preset(asked.model)
    path = bk.export.saved_model(classifier, classifier.tokenizer, asked.data)
    # === Another program, which needs only TensorFlow and tensorflow-text ===
    import tensorflow as tf
    import tensorflow_text  # noqa: F401

    served = tf.saved_model.load(str(path))
    texts = ["A good film.", "A bad film."]
    answers = served.signatures["serving_default"](text=tf.constant(texts))
    for text, label, score in zip(texts, answers["label"], answers["score"], strict=True):
        print(f"{label.numpy().decode()} ({float(score):.2f}): {text}")
    assert [label.numpy().decode() for label in answers["label"]] == [
        answer.label for answer in classifier.predict_labels(texts)
    ]


if __name__ == "__main__":
    main()
