"""Entry point of `bert-keras fill-mask` in a clone: `python -m training.fill_mask`."""

from bert_keras import hooks

with hooks.ending_at_interrupt():
    from bert_keras.training.fill_mask import describe, main
    from bert_keras.training.run import run

if __name__ == "__main__":
    run(main, describe=describe)
