"""Whether two sentences say the same: MRPC.

Command:  python -m training.finetune mrpc train=becel_train.tsv dev=becel_validation.tsv
          encoder=HANDLE
"""

from training.finetune_recipe import FinetuneRecipe

recipe = FinetuneRecipe(
    task="labels",
    quoting="true",
    text="sentence1",
    pair="sentence2",
    label="label",
    positive="1",
    max_length=128,
    epochs=3,
    learning_rate=1e-4,
)
