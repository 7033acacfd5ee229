"""Labels of texts, learned from 8 examples of each label (SetFit): any table of texts and labels.

Command:  bert-keras finetune few_shot train=glue_train.tsv dev=glue_dev.tsv
          text=1 label=0 encoder=HANDLE
"""

from bert_keras.training import FinetuneRecipe

recipe = FinetuneRecipe(
    task="text_classification",
    examples_per_label=8,
    max_length=256,
    batch_size=16,
    epochs=1,
    learning_rate=2e-5,
)
