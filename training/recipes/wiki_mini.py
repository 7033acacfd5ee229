"""BERT-mini on 20 MB of English Wikipedia: masked tokens and next sentences, in about an hour.

Command:  python -m training.pretrain wiki_mini corpus=FILES
Hardware: 2 CPU cores
Time:     not yet run
Result:   not yet run
"""

from training.recipe import PretrainRecipe

recipe = PretrainRecipe(
    corpus="wiki/*.txt",
    held_out=0.06,  # 2,000 held-out pairs
    vocab_size=16_000,
    preset="bert_mini_uncased",
    # A model this small, on text it sees a few times, underfits: dropout would cost, not help.
    dropout=0.0,
    attention_dropout=0.0,
    sequence_length=128,
    batch_size=32,
    steps=4_500,
    optimizer="muon",  # with AdamW the pairs stay at chance for thousands of steps
    learning_rate=3e-3,
    warmup_steps=100,
    report_every=50,
    evaluate_every=10,
    evaluation_pairs=2_000,
    checkpoint_every=10,
)
