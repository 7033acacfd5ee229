"""Entry points for a clone: `python -m training.PROGRAM` runs that program of bert_keras."""
