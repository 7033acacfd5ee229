"""Entry point of `bert-keras recipes` in a clone: `python -m training.recipe_list`."""

from bert_keras import hooks

with hooks.ending_at_interrupt():
    from bert_keras.training.recipe_list import main
    from bert_keras.training.run import run

if __name__ == "__main__":
    run(main)
