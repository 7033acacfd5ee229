"""Entry point of `bert-keras finetune` in a clone: `python -m training.finetune`."""

from bert_keras import hooks

with hooks.ending_at_interrupt():
    from bert_keras.training.finetune import describe, main
    from bert_keras.training.run import run

if __name__ == "__main__":
    run(main, describe=describe)
