"""Answers in Chinese texts: CMRC 2018, trial part; a tenth of the texts for validation.

Command:  bert-keras finetune cmrc train=cmrc2018_trial.json
          encoder=HANDLE
Hardware: 2 CPU cores (AVX-512), TensorFlow 2.21
Time:     11:02, 2026-11-22
Result:   from our own zh_mini, on 101 validation questions: F1 10.3 %, exact match 1.0 %
"""

from bert_keras.training import FinetuneRecipe

recipe = FinetuneRecipe(
    task="question_answering",
    language="zh",
    validation_split=0.1,
    max_length=128,  # zh_mini has learned no more positions
    stride=48,
    max_question=32,
    max_answer=50,
    epochs=3,
    learning_rate=1e-4,
)
