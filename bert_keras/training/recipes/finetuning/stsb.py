"""Similarity of two sentences, both read together: STS-B.

Command:  bert-keras finetune stsb train=official_train.tsv dev=official_dev.tsv
          encoder=HANDLE
Hardware: 2 CPU cores (AVX-512), TensorFlow 2.21
Time:     2:45 of training, measured once, 2026-11-22
Result:   from all-MiniLM-L6-v2, on 1,500 examples of dev after the last epoch, three seeds:
          Spearman 0.8529 ± 0.0031, Pearson 0.8481 ± 0.0036
"""

from bert_keras.training import FinetuneRecipe

recipe = FinetuneRecipe(
    task="text_regression",
    text="sentence1",
    pair="sentence2",
    label="score",
    max_length=128,
    epochs=2,
    learning_rate=1e-4,
)
