"""Programs of `bert-keras` that prepare text, pretrain, fine-tune and evaluate, and their recipes.

A recipe file, in any folder:

    from bert_keras.training import FinetuneRecipe

    recipe = FinetuneRecipe(task="text_classification", text="sentence")
"""

from bert_keras.training.finetune_recipe import FinetuneRecipe
from bert_keras.training.pretrain_recipe import PretrainRecipe

__all__ = ["FinetuneRecipe", "PretrainRecipe"]
