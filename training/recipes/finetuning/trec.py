"""What a question asks for, of six kinds: TREC; a tenth is held out.

Command:  python -m training.finetune trec train=TREC.train.all
          encoder=HANDLE
"""

from training.finetune_recipe import FinetuneRecipe

recipe = FinetuneRecipe(
    task="labels",
    format="label_text",
    encoding="latin-1",
    text="text",
    label="label",
    held_out=0.1,
    max_length=48,
    epochs=4,
    learning_rate=1e-4,
)
