"""`python -m bert_keras`: the command `bert-keras`, where its script is not on the path."""

from bert_keras.cli import main

if __name__ == "__main__":
    main()
