"""Entailment, neutral or contradiction: SICK.

Command:  bert-keras finetune sick train=SICK_train.txt dev=SICK_trial.txt
          encoder=HANDLE
Hardware: 2 CPU cores (AVX-512), TensorFlow 2.21
Time:     4:10, 2026-11-22
Result:   from all-MiniLM-L6-v2, on 500 examples of dev: accuracy 0.8660, macro F1 0.8628,
          Matthews'  correlation 0.7684
"""

from bert_keras.training import FinetuneRecipe

recipe = FinetuneRecipe(
    task="text_classification",
    format="tsv",
    text="sentence_A",
    pair="sentence_B",
    label="entailment_judgment",
    max_length=64,
    epochs=4,
    learning_rate=1e-4,
)
