"""Sentiment of Chinese reviews: ChnSentiCorp.

Command:  python -m training.finetune chnsenticorp train=train.tsv dev=dev_not_in_train.tsv
          encoder=HANDLE
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
