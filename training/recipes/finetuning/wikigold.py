"""Entities in Wikipedia: Wikigold; the last fifth is held out.

Command:  python -m training.finetune wikigold train=wikigold.conll.txt
          encoder=HANDLE
"""

from training.finetune_recipe import FinetuneRecipe

recipe = FinetuneRecipe(
    task="entities",
    held_out=0.2,
    max_length=128,
    epochs=8,
    learning_rate=2e-4,
)
