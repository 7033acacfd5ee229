"""Similarity of two sentences, by the cosine of their vectors: STS-B.

Command:  bert-keras finetune stsb_vectors train=official_train.tsv dev=official_dev.tsv
          encoder=HANDLE
Hardware: 2 CPU cores (AVX-512), TensorFlow 2.21
Time:     5:16, 2026-11-22
Result:   from all-MiniLM-L6-v2, on 1,500 examples of dev: Spearman 0.8960, Pearson 0.8952
"""

from bert_keras.training import FinetuneRecipe

recipe = FinetuneRecipe(
    task="sentence_similarity",
    text="sentence1",
    pair="sentence2",
    label="score",
    max_score=5.0,
    max_length=64,
    epochs=3,
    learning_rate=5e-5,
)
