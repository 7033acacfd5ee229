"""Sentiment of film reviews: GLUE SST-2, 10,000 rows of train.

Command:  python -m training.finetune sst2 train=glue_train.tsv dev=glue_dev.tsv
          encoder=HANDLE
"""

from training.finetune_recipe import FinetuneRecipe

recipe = FinetuneRecipe(
    task="labels",
    text="1",
    label="0",
    rows=10_000,
    positive="1",
    max_length=64,
    epochs=2,
    learning_rate=1e-4,
)
