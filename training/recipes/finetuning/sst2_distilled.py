"""Every second layer of a model of SST-2, which learns from the whole one (as DistilBERT did).

Command:  python -m training.finetune sst2_distilled train=glue_train.tsv dev=glue_dev.tsv
          encoder=runs/sst2 teacher=runs/sst2
Hardware: 2 CPU cores (AVX-512), TensorFlow 2.21
Time:     3:43, 2026-11-22
Result:   from every second layer of the run sst2, on 872 examples of dev: accuracy 0.8578, macro
          F1  0.8578, Matthews' correlation 0.7155, F1 0.8604
"""

from training.finetune_recipe import FinetuneRecipe

recipe = FinetuneRecipe(
    task="labels",
    text="1",
    label="0",
    rows=10_000,
    positive="1",
    max_length=64,
    layers="0,2,4",
    alpha=0.5,
    hidden=1.0,
    epochs=3,
    learning_rate=1e-4,
)
