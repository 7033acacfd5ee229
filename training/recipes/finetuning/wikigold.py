"""Entities in Wikipedia: Wikigold; the last fifth is held out.

Command:  python -m training.finetune wikigold train=wikigold.conll.txt
          encoder=HANDLE
Hardware: 2 CPU cores (AVX-512), TensorFlow 2.21
Time:     3:12, 2026-11-22
Result:   from all-MiniLM-L6-v2, on 339 held-out sentences: F1 0.6716, precision 0.6549, recall
          0.6890, strict F1 0.6873
"""

from training.finetune_recipe import FinetuneRecipe

recipe = FinetuneRecipe(
    task="entities",
    held_out=0.2,
    max_length=128,
    epochs=8,
    learning_rate=2e-4,
)
