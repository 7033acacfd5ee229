"""Whether two Chinese questions ask the same: LCQMC's dev part; a tenth of it is held out.

Command:  python -m training.finetune lcqmc train=LCQMC_dev.txt
          encoder=HANDLE
"""

from training.finetune_recipe import FinetuneRecipe

recipe = FinetuneRecipe(
    task="labels",
    format="tsv",
    header=False,
    text="0",
    pair="1",
    label="2",
    held_out=0.1,
    max_length=64,
    epochs=4,
    learning_rate=1e-4,
)
