"""`python -m training.evaluate`: the program `bert-keras evaluate`, in a clone."""

from bert_keras.training.evaluate import main
from bert_keras.training.run import run

if __name__ == "__main__":
    run(main)
