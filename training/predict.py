"""`python -m training.predict`: the program `bert-keras predict`, in a clone."""

from bert_keras.training.predict import main
from bert_keras.training.run import run

if __name__ == "__main__":
    run(main)
