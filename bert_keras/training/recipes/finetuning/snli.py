"""Entailment of captions, learned from SNLI's dev part; a tenth of it is for validation.

Command:  bert-keras finetune snli train=validation.tsv
          encoder=HANDLE
Hardware: 2 CPU cores (AVX-512), TensorFlow 2.21
Time:     6:20, 2026-11-22
Result:   from all-MiniLM-L6-v2, on 985 validation examples: accuracy 0.8010, macro F1 0.8007,
          Matthews' correlation 0.7018
"""

from bert_keras.training import FinetuneRecipe

recipe = FinetuneRecipe(
    task="text_classification",
    text="premise",
    pair="hypothesis",
    label="label",
    validation_split=0.1,
    max_length=64,
    epochs=3,
    learning_rate=1e-4,
)
