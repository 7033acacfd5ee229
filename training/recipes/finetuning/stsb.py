"""How alike two sentences are, by reading both together: STS-B.

Command:  python -m training.finetune stsb train=official_train.tsv dev=official_dev.tsv
          encoder=HANDLE
"""

from training.finetune_recipe import FinetuneRecipe

recipe = FinetuneRecipe(
    task="scores",
    text="sentence1",
    pair="sentence2",
    label="score",
    max_length=128,
    epochs=2,
    learning_rate=1e-4,
)
