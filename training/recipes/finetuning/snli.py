"""Entailment of captions, learned from SNLI's validation part; a tenth of it is held out.

Command:  python -m training.finetune snli train=validation.tsv
          encoder=HANDLE
"""

from training.finetune_recipe import FinetuneRecipe

recipe = FinetuneRecipe(
    task="labels",
    text="premise",
    pair="hypothesis",
    label="label",
    held_out=0.1,
    max_length=64,
    epochs=3,
    learning_rate=1e-4,
)
