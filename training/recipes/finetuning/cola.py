"""Whether a sentence is acceptable: CoLA; a tenth is held out.

Command:  python -m training.finetune cola train=official_train.tsv
          encoder=HANDLE
"""

from training.finetune_recipe import FinetuneRecipe

recipe = FinetuneRecipe(
    task="labels",
    header=False,
    text="3",
    label="1",
    held_out=0.1,
    metric="matthews",
    max_length=64,
    epochs=4,
    learning_rate=1e-4,
)
