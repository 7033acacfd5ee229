"""Persons, places, organisations: CoNLL-2003, the first 5,000 sentences of train.

Command:  python -m training.finetune conll2003 train=eng.train dev=eng.testa
          encoder=HANDLE
"""

from training.finetune_recipe import FinetuneRecipe

recipe = FinetuneRecipe(
    task="entities",
    rows=5_000,
    draw=False,
    max_length=256,
    epochs=2,
    learning_rate=2e-4,
)
