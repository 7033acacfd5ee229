"""Whether one text follows from another: RTE; a tenth is held out.

Command:  python -m training.finetune rte train=train.tsv
          encoder=HANDLE
"""

from training.finetune_recipe import FinetuneRecipe

recipe = FinetuneRecipe(
    task="labels",
    text="sentence1",
    pair="sentence2",
    label="label",
    held_out=0.1,
    max_length=128,
    epochs=5,
    learning_rate=5e-5,
)
