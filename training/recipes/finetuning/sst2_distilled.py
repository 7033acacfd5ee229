"""Every second layer of a model of SST-2, which learns from the whole one (as DistilBERT did).

Command:  python -m training.finetune sst2_distilled train=glue_train.tsv dev=glue_dev.tsv
          text=1 label=0 encoder=runs/sst2 teacher=runs/sst2
"""

from training.finetune_recipe import FinetuneRecipe

recipe = FinetuneRecipe(
    task="labels",
    text="sentence",
    label="label",
    rows=10_000,
    positive="1",
    max_length=64,
    layers="0,2,4",
    alpha=0.5,
    hidden=1.0,
    epochs=3,
    learning_rate=1e-4,
)
