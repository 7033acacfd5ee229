"""Entities in Wikipedia: Wikigold; the last fifth is for validation.

Command:  bert-keras finetune wikigold train=wikigold.conll.txt
          encoder=HANDLE
Hardware: 2 CPU cores (AVX-512), TensorFlow 2.21
Time:     4:43, 2026-11-22
Result:   from all-MiniLM-L6-v2, on 339 validation sentences: F1 0.6786, precision 0.6598, recall
          0.6986, strict F1 0.6896
"""

from bert_keras.training import FinetuneRecipe

recipe = FinetuneRecipe(
    task="token_classification",
    validation_split=0.2,
    max_length=128,
    epochs=8,
    learning_rate=2e-4,
)
