"""Sentiment of Chinese reviews: ChnSentiCorp.

Command:  python -m training.finetune chnsenticorp train=train.tsv dev=dev_not_in_train.tsv
          encoder=HANDLE
Hardware: 2 CPU cores (AVX-512), TensorFlow 2.21
Time:     8:15 beside other work, 2026-11-22
Result:   from our own zh_mini, on 862 examples of dev: accuracy 0.8654, macro F1 0.8640, Matthews'
          correlation 0.7315, F1 0.8779
"""

from training.finetune_recipe import FinetuneRecipe

recipe = FinetuneRecipe(
    task="labels",
    header=False,
    text="0",
    label="1",
    max_length=128,
    epochs=3,
    learning_rate=1e-4,
)
