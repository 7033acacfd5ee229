"""Vectors of sentences, learned from labels of pairs: SNLI's validation part, a tenth held out.

Command:  python -m training.finetune snli_vectors train=validation.tsv
          encoder=HANDLE
"""

from training.finetune_recipe import FinetuneRecipe

recipe = FinetuneRecipe(
    task="pair_labels",
    text="premise",
    pair="hypothesis",
    label="label",
    held_out=0.1,
    max_length=64,
    epochs=2,
    learning_rate=5e-5,
)
