"""Rare and emerging entities in tweets: WNUT-17.

Command:  bert-keras finetune wnut17 train=wnut17train.conll dev=emerging.dev.conll
          encoder=HANDLE
Hardware: 2 CPU cores (AVX-512), TensorFlow 2.21
Time:     6:33, 2026-11-22
Result:   from all-MiniLM-L6-v2, on 1,009 sentences of dev: F1 0.5409, precision 0.5907, recall
          0.4988, strict F1 0.5564
"""

from bert_keras.training import FinetuneRecipe

recipe = FinetuneRecipe(
    task="token_classification",
    max_length=128,
    epochs=5,
    learning_rate=2e-4,
)
