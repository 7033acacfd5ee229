"""Entry point of `bert-keras pretrain` in a clone: `python -m training.pretrain`."""

from bert_keras import hooks

with hooks.ending_at_interrupt():
    from bert_keras.training.pretrain import describe, main
    from bert_keras.training.run import run

if __name__ == "__main__":
    run(main, describe=describe)
