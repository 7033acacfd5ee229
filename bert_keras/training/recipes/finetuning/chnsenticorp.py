"""Sentiment of Chinese reviews: ChnSentiCorp.

Command:  bert-keras finetune chnsenticorp train=train.tsv dev=dev_not_in_train.tsv
          encoder=HANDLE
Hardware: 2 CPU cores (AVX-512), TensorFlow 2.21
Time:     7:40, 2026-11-22
Result:   from our own zh_mini, on 862 examples of dev: accuracy 0.8608, macro F1 0.8589, Matthews'
          correlation 0.7194, F1 0.8753
"""

from bert_keras.training import FinetuneRecipe

recipe = FinetuneRecipe(
    task="text_classification",
    header=False,
    text="0",
    label="1",
    max_length=128,
    epochs=3,
    learning_rate=1e-4,
)
