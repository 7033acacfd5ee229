"""Every second layer of a model of CoNLL-2003, which learns from the whole one's tags.

Command:  bert-keras finetune conll2003_distilled train=eng.train dev=eng.testa
          encoder=runs/conll2003 teacher=runs/conll2003
Hardware: 2 CPU cores (AVX-512), TensorFlow 2.21
Time:     5:18, 2026-11-22
Result:   from the model of the recipe conll2003 (F1 0.8573), on 3,250 sentences of dev: F1 0.8486,
          precision 0.8403, recall 0.8571, strict F1 0.8580
"""

from bert_keras.training import FinetuneRecipe

recipe = FinetuneRecipe(
    task="token_classification",
    rows=5_000,
    draw=False,
    max_length=256,
    layers="0,2,4",
    alpha=0.7,
    hidden=1.0,
    epochs=4,
    learning_rate=2e-4,
)
