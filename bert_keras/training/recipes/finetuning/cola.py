"""Acceptability of a sentence: CoLA; a tenth is for validation.

Command:  bert-keras finetune cola train=official_train.tsv
          encoder=HANDLE
Hardware: 2 CPU cores (AVX-512), TensorFlow 2.21
Time:     4:19, 2026-11-22
Result:   from all-MiniLM-L6-v2, on 855 validation examples: Matthews' correlation 0.2482, accuracy
          0.7099, macro F1 0.6183, F1 0.8053
"""

from bert_keras.training import FinetuneRecipe

recipe = FinetuneRecipe(
    task="text_classification",
    header=False,
    text="3",
    label="1",
    validation_split=0.1,
    metric="matthews",
    max_length=64,
    epochs=4,
    learning_rate=1e-4,
)
