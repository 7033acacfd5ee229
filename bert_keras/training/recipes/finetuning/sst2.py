"""Sentiment of film reviews: GLUE SST-2, 10,000 rows of train.

Command:  bert-keras finetune sst2 train=glue_train.tsv dev=glue_dev.tsv
          text=1 label=0 encoder=HANDLE
Hardware: 2 CPU cores (AVX-512), TensorFlow 2.21
Time:     2:52, 2026-11-22
Result:   from all-MiniLM-L6-v2, on 872 examples of dev: accuracy 0.8635, macro F1 0.8635,
          Matthews'  correlation 0.7271, F1 0.8649
"""

from bert_keras.training import FinetuneRecipe

recipe = FinetuneRecipe(
    task="text_classification",
    text="sentence",
    label="label",
    rows=10_000,
    max_length=64,
    epochs=2,
    learning_rate=1e-4,
)
