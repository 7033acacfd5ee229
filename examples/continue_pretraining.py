"""Continue pretraining: more masked language modelling on the texts of a domain.

python -m examples.continue_pretraining notes.txt  (one text per line)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import bert_keras as bk
from examples import program


def main(arguments: Sequence[str] | None = None) -> None:
    """Train the whole model on new texts, and compare its loss and a fill before and after."""
    asked = program.arguments(__doc__, arguments, data="notes.txt", model="bert_base_uncased")
    if asked.quick:
        lines = [f"The pump of unit {n} is worn." for n in range(60)]
        asked.data, asked.model = program.file("notes.txt", lines), program.model(lines)
    texts = Path(asked.data).read_text(encoding="utf-8").splitlines()
    texts = [text for text in texts if text.strip()]
    # A folder without this head gets a new one. The other heads of the folder are left out.
    model = bk.MaskedLM.from_preset(asked.model, allow_missing="mlm", allow_unused=("nsp", "sop"))
    learned, validation = texts[: -len(texts) // 10], texts[-len(texts) // 10 :]
    question = [validation[0].replace(validation[0].split()[1], "[MASK]", 1)]
    for name in ("before", "after"):
        if name == "after":
            model.fit(learned, epochs=3, learning_rate=asked.rate, max_length=128, verbose=2)
        loss = model.evaluate(validation, return_dict=True, verbose=0)["loss"]
        tokens = [fill.token for fill in model.fill_mask(question, top_k=3)[0][0]]
        print(f"{name}: validation loss {loss:.3f}; {question[0]} {tokens}")
    model.save_to_preset("domain_bert")  # SequenceClassifier.from_preset("domain_bert", labels=…)


if __name__ == "__main__":
    main()
