"""Paraphrases: MRPC.

Command:  bert-keras finetune mrpc train=becel_train.tsv dev=becel_validation.tsv
          encoder=HANDLE
Hardware: 2 CPU cores (AVX-512), TensorFlow 2.21
Time:     4:06 of training, measured once, 2026-11-22
Result:   from all-MiniLM-L6-v2, on 408 examples of dev after the last epoch, three seeds: accuracy
          0.8137 ± 0.0112, macro F1 0.7652 ± 0.0201, Matthews' correlation 0.5488 ± 0.0299, F1
          0.8718 ± 0.0066
"""

from bert_keras.training import FinetuneRecipe

recipe = FinetuneRecipe(
    task="text_classification",
    quoting="true",
    text="sentence1",
    pair="sentence2",
    label="label",
    max_length=128,
    epochs=3,
    learning_rate=1e-4,
)
