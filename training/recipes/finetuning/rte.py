"""Whether one text follows from another: RTE; a tenth is held out.

Command:  python -m training.finetune rte train=train.tsv
          encoder=HANDLE
Hardware: 2 CPU cores (AVX-512), TensorFlow 2.21
Time:     5:21, 2026-11-22
Result:   from all-MiniLM-L6-v2, on 249 held-out examples: accuracy 0.6024, macro F1 0.5993,
          Matthews' correlation 0.1995, F1 0.5639
"""

from training.finetune_recipe import FinetuneRecipe

recipe = FinetuneRecipe(
    task="labels",
    text="sentence1",
    pair="sentence2",
    label="label",
    held_out=0.1,
    max_length=128,
    epochs=5,
    learning_rate=5e-5,
)
