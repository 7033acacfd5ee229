"""Every second layer of a model of SST-2, which learns from the whole one (as DistilBERT did).

Command:  bert-keras finetune sst2_distilled train=glue_train.tsv dev=glue_dev.tsv
          text=1 label=0 encoder=runs/sst2 teacher=runs/sst2
Hardware: 2 CPU cores (AVX-512), TensorFlow 2.21
Time:     3:50, 2026-11-22
Result:   from a model of recipe `sst2`, on 872 examples of dev: accuracy 0.8555, macro F1 0.8554,
          Matthews' correlation 0.7109, F1 0.8584
"""

from bert_keras.training import FinetuneRecipe

recipe = FinetuneRecipe(
    task="text_classification",
    text="sentence",
    label="label",
    rows=10_000,
    max_length=64,
    layers="0,2,4",
    alpha=0.5,
    hidden=1.0,
    epochs=3,
    learning_rate=1e-4,
)
