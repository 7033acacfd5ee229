"""Relatedness of two sentences, from 1 to 5: SICK.

Command:  bert-keras finetune sick_relatedness train=SICK_train.txt dev=SICK_trial.txt
          encoder=HANDLE
Hardware: 2 CPU cores (AVX-512), TensorFlow 2.21
Time:     3:39, 2026-11-22
Result:   from all-MiniLM-L6-v2, on 500 examples of dev: Pearson 0.8651, Spearman 0.8213
"""

from bert_keras.training import FinetuneRecipe

recipe = FinetuneRecipe(
    task="text_regression",
    format="tsv",
    text="sentence_A",
    pair="sentence_B",
    label="relatedness_score",
    metric="pearson",
    max_length=64,
    epochs=4,
    learning_rate=1e-4,
)
