"""Entailment, neutral or contradiction: SICK.

Command:  python -m training.finetune sick train=SICK_train.txt dev=SICK_trial.txt
          encoder=HANDLE
"""

from training.finetune_recipe import FinetuneRecipe

recipe = FinetuneRecipe(
    task="labels",
    format="tsv",
    text="sentence_A",
    pair="sentence_B",
    label="entailment_judgment",
    max_length=64,
    epochs=4,
    learning_rate=1e-4,
)
