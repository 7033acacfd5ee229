"""Question classification, six classes: TREC; a tenth is for validation.

Command:  bert-keras finetune trec train=TREC.train.all
          encoder=HANDLE
Hardware: 2 CPU cores (AVX-512), TensorFlow 2.21
Time:     6:22 beside another run, 2026-11-22
Result:   from all-MiniLM-L6-v2, on 545 validation examples: accuracy 0.9431, macro F1 0.9309,
          Matthews' correlation 0.9290
"""

from bert_keras.training import FinetuneRecipe

recipe = FinetuneRecipe(
    task="text_classification",
    format="label_text",
    encoding="latin-1",
    text="text",
    label="label",
    validation_split=0.1,
    max_length=48,
    epochs=4,
    learning_rate=1e-4,
)
