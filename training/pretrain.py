"""`python -m training.pretrain`: the program `bert-keras pretrain`, in a clone."""

from bert_keras.training.pretrain import describe, main
from bert_keras.training.run import run

if __name__ == "__main__":
    run(main, describe=describe)
