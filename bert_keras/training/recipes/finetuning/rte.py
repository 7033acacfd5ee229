"""Textual entailment: RTE; a tenth is for validation.

Command:  bert-keras finetune rte train=train.tsv
          encoder=HANDLE
Hardware: 2 CPU cores (AVX-512), TensorFlow 2.21
Time:     6:00, 2026-11-22
Result:   from all-MiniLM-L6-v2, on 249 validation examples: accuracy 0.6104, macro F1 0.6092,
          Matthews' correlation 0.2256, F1 0.6312
"""

from bert_keras.training import FinetuneRecipe

recipe = FinetuneRecipe(
    task="text_classification",
    text="sentence1",
    pair="sentence2",
    label="label",
    validation_split=0.1,
    max_length=128,
    epochs=5,
    learning_rate=5e-5,
)
