"""Entities that no one has heard of, in tweets: WNUT-17.

Command:  python -m training.finetune wnut17 train=wnut17train.conll dev=emerging.dev.conll
          encoder=HANDLE
"""

from training.finetune_recipe import FinetuneRecipe

recipe = FinetuneRecipe(
    task="entities",
    max_length=128,
    epochs=5,
    learning_rate=2e-4,
)
