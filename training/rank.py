"""Entry point of `bert-keras rank` in a clone: `python -m training.rank`."""

from bert_keras import hooks

with hooks.ending_at_interrupt():
    from bert_keras.training.rank import main
    from bert_keras.training.run import run

if __name__ == "__main__":
    run(main)
