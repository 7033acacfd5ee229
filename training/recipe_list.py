"""`python -m training.recipe_list`: the program `bert-keras recipes`, in a clone."""

from bert_keras.training.recipe_list import main
from bert_keras.training.run import run

if __name__ == "__main__":
    run(main)
