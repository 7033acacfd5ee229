"""How alike two sentences are, by the cosine of their vectors: STS-B.

Command:  python -m training.finetune stsb_vectors train=official_train.tsv dev=official_dev.tsv
          encoder=HANDLE
"""

from training.finetune_recipe import FinetuneRecipe

recipe = FinetuneRecipe(
    task="similarity",
    text="sentence1",
    pair="sentence2",
    label="score",
    highest=5.0,
    max_length=64,
    epochs=3,
    learning_rate=5e-5,
)
