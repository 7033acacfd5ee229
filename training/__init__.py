"""Programs that prepare text, pretrain and ask a BERT: python -m training.<program>."""
