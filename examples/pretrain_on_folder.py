"""Pretrain on a folder: train a vocabulary and a small BERT on .txt files.

python -m examples.pretrain_on_folder texts  (`bert-keras pretrain` does the same for larger
corpora, with reports and with checkpoints to resume a stopped run)
"""

from __future__ import annotations

from collections.abc import Sequence

import bert_keras as bk
from bert_keras.data import PretrainingExamples, dataset, read, write
from examples import program


def main(arguments: Sequence[str] | None = None) -> None:
    """Train a vocabulary, prepare the text, pretrain, and fill a mask."""
    asked = program.arguments(__doc__, arguments, data="texts", model="bert_mini_uncased")
    vocab_size, steps, corpus = (8_000, 5_000, "corpus")
    if asked.quick:
        lines = (f"The river {n} is long. It runs in the hills {n}.\n" for n in range(200))
        asked.data, asked.model = program.file("rivers.txt", lines), "bert_tiny_uncased"
        vocab_size, steps, corpus = (60, 20, program.folder() / "corpus")
    # === Text, with a paragraph per line and a blank line between documents ===
    documents = read(asked.data)
    tokenizer = bk.Tokenizer.train(documents, vocab_size=vocab_size)
    stores = write(corpus, documents, tokenizer, validation_split=0.1)
    examples, validation = (
        dataset(PretrainingExamples(store, tokenizer, sequence_length=128, batch_size=16))
        for store in stores.values()
    )
    # === Model ===
    config = bk.PRESETS[asked.model].replace(vocab_size=tokenizer.vocab_size)
    model = bk.Pretrainer(bk.BertEncoder(config), tokenizer=tokenizer)
    rule = bk.optimizer(1e-3, total_steps=steps, warmup_steps=steps // 10)
    model.compile(rule, **model.loss_and_metrics())
    model.fit(examples, epochs=max(1, steps // len(examples)), verbose=2)
    print(model.evaluate(validation, return_dict=True, verbose=0))
    print([fill.token for fill in model.fill_mask(["The river [MASK] long."], top_k=3)[0][0]])
    model.save_to_preset("my_bert")


if __name__ == "__main__":
    main()
