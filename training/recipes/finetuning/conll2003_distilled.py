"""Every second layer of a model of CoNLL-2003, which learns from the whole one's tags.

Command:  python -m training.finetune conll2003_distilled train=eng.train dev=eng.testa
          encoder=runs/conll2003 teacher=runs/conll2003
Hardware: 2 CPU cores (AVX-512), TensorFlow 2.21
Time:     3:39, 2026-11-22
Result:   from every second layer of the run conll2003, on 3,250 sentences of dev: F1 0.8557,
          precision 0.8470, recall 0.8645, strict F1 0.8648
"""

from training.finetune_recipe import FinetuneRecipe

recipe = FinetuneRecipe(
    task="entities",
    rows=5_000,
    draw=False,
    max_length=256,
    layers="0,2,4",
    alpha=0.7,
    hidden=1.0,
    epochs=4,
    learning_rate=2e-4,
)
