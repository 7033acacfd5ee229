"""Paraphrases of Chinese questions: LCQMC's dev part; a tenth of it is for validation.

Command:  bert-keras finetune lcqmc train=LCQMC_dev.txt
          encoder=HANDLE
Hardware: 2 CPU cores (AVX-512), TensorFlow 2.21
Time:     3:47, 2026-11-22
Result:   from our own zh_mini, on 880 validation examples: accuracy 0.7727, macro F1 0.7724,
          Matthews' correlation 0.5474, F1 0.7812
"""

from bert_keras.training import FinetuneRecipe

recipe = FinetuneRecipe(
    task="text_classification",
    format="tsv",
    header=False,
    text="0",
    pair="1",
    label="2",
    validation_split=0.1,
    max_length=64,
    epochs=4,
    learning_rate=1e-4,
)
