"""Entry point of `bert-keras mine-negatives` in a clone: `python -m training.mine_negatives`."""

from bert_keras import hooks

with hooks.ending_at_interrupt():
    from bert_keras.training.mine_negatives import main
    from bert_keras.training.run import run

if __name__ == "__main__":
    run(main)
