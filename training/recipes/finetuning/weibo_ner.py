"""Entities in Chinese posts: Weibo NER.

Command:  python -m training.finetune weibo_ner train=Weibo_weiboNER_2nd_conll.train
          dev=Weibo_weiboNER_2nd_conll.dev encoder=HANDLE
"""

from training.finetune_recipe import FinetuneRecipe

recipe = FinetuneRecipe(
    task="entities",
    numbered_characters=True,
    max_length=128,
    epochs=8,
    learning_rate=2e-4,
)
