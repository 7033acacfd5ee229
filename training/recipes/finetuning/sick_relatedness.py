"""How related two sentences are, from 1 to 5: SICK.

Command:  python -m training.finetune sick_relatedness train=SICK_train.txt dev=SICK_trial.txt
          encoder=HANDLE
"""

from training.finetune_recipe import FinetuneRecipe

recipe = FinetuneRecipe(
    task="scores",
    format="tsv",
    text="sentence_A",
    pair="sentence_B",
    label="relatedness_score",
    metric="pearson",
    max_length=64,
    epochs=4,
    learning_rate=1e-4,
)
