"""Entry point of `bert-keras`, and of `python -m bert_keras`."""

from bert_keras import hooks

with hooks.ending_at_interrupt():
    from bert_keras.cli import main

if __name__ == "__main__":
    main()
