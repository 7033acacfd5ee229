"""`python -m training.PROGRAM` in a clone: forwards to the programs of `bert_keras.training`."""
