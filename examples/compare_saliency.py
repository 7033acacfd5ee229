"""Compare the scores of two methods with the effect of masking each token.

python -m examples.compare_saliency --model review_classifier  (of classify_reviews)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import bert_keras as bk
from examples import program

TEXTS = """The plot is thin and the jokes are stale, but the actors are wonderful.
A wonderful film with a dull ending.
The acting is wonderful, but the story is a boring mess.
A slow start, but the ending is a quiet triumph.
Nothing in this long film is new, and little of it is funny.
The camera loves the city, and so will you."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the correlation of each method with the change of the logit, for every text."""
    asked = program.arguments(__doc__, arguments, data="", model="review_classifier")
    head = {"labels": ["good", "bad"]} if asked.quick else {}
    asked.model = program.model(TEXTS.splitlines()) if asked.quick else asked.model
    model = bk.SequenceClassifier.from_preset(asked.model, **head)
    for text in TEXTS.splitlines():
        features = model.tokenizer([text])
        count = features["token_ids"].shape[1] - 1
        rows = {name: np.repeat(values, count, axis=0) for name, values in features.items()}
        for place in range(1, count):  # row 0 is the text, row 1 masks the first token
            rows["token_ids"][place, place] = model.tokenizer.mask_id
        logits = model.predict(rows, verbose=0)["label"]
        for method in ("integrated_gradients", "gradient_x_input"):
            picture = bk.visualize.saliency(model, text, method=method)
            of_label = logits[:, model.options["labels"].index(picture.label)]
            found = np.corrcoef(of_label[0] - of_label[1:], picture.scores[1:-1])[0, 1]
            print(f"{found:6.2f}  {method:20}  {picture.headline:18}  {text}")


if __name__ == "__main__":
    main()
