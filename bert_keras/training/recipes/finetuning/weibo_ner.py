"""Entities in Chinese posts: Weibo NER.

Command:  bert-keras finetune weibo_ner train=Weibo_weiboNER_2nd_conll.train
          dev=Weibo_weiboNER_2nd_conll.dev encoder=HANDLE
Hardware: 2 CPU cores (AVX-512), TensorFlow 2.21
Time:     4:04, 2026-11-22
Result:   from our own zh_mini, on 270 sentences of dev: F1 0.2485, precision 0.2361, recall
          0.2622, strict F1 0.2871
"""

from bert_keras.training import FinetuneRecipe

recipe = FinetuneRecipe(
    task="token_classification",
    numbered_characters=True,
    max_length=128,
    epochs=8,
    learning_rate=2e-4,
)
