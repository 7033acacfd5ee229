"""Finding the text that belongs to a text: any table of pairs, such as questions and answers.

Command:  bert-keras finetune retrieval train=pairs.tsv text=question pair=answer
          encoder=HANDLE
"""

from bert_keras.training import FinetuneRecipe

recipe = FinetuneRecipe(
    task="retrieval",
    pair="pair",
    max_length=128,
    batch_size=64,
    epochs=1,
    evaluations=4,
    learning_rate=5e-5,
)
