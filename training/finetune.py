"""`python -m training.finetune`: the program `bert-keras finetune`, in a clone."""

from bert_keras.training.finetune import describe, main
from bert_keras.training.run import run

if __name__ == "__main__":
    run(main, describe=describe)
