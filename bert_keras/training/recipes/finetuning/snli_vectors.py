"""Vectors of sentences, learned from labels of pairs: SNLI's dev part, a tenth for validation.

Command:  bert-keras finetune snli_vectors train=validation.tsv
          encoder=HANDLE
Hardware: 2 CPU cores (AVX-512), TensorFlow 2.21
Time:     6:01, 2026-11-22
Result:   from all-MiniLM-L6-v2, on 985 validation examples: accuracy 0.6782, macro F1 0.6768,
          Matthews' correlation 0.5181
"""

from bert_keras.training import FinetuneRecipe

recipe = FinetuneRecipe(
    task="pair_classification",
    text="premise",
    pair="hypothesis",
    label="label",
    validation_split=0.1,
    max_length=64,
    epochs=2,
    learning_rate=5e-5,
)
