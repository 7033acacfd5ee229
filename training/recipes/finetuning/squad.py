"""Answers in articles of Wikipedia: SQuAD 1.1; 30 articles to learn from, 5 to measure on.

Command:  python -m training.finetune squad train=split_share_35articles_v1.1.json
          encoder=HANDLE
"""

from training.finetune_recipe import FinetuneRecipe

recipe = FinetuneRecipe(
    task="questions",
    held_out=0.143,
    dropout=0.0,  # published models have none before this head
    max_length=256,
    stride=128,
    epochs=1,
    evaluations=4,
    learning_rate=1e-4,
)
