"""The order of documents for a query: any table of queries, documents and their relevance.

Command:  bert-keras finetune ranking train=rows.tsv text=query pair=passage label=relevance
          encoder=HANDLE
"""

from bert_keras.training import FinetuneRecipe

recipe = FinetuneRecipe(
    task="text_ranking",
    pair="pair",
    loss="lambda",
    max_length=256,
    batch_size=8,
    epochs=1,
    evaluations=4,
    learning_rate=2e-5,
)
