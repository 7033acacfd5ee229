"""BERT-mini on 6 MB of modern Chinese: characters and words, sentences one a line.

Command:  python -m training.pretrain zh_mini corpus=FILES
Hardware: 2 CPU cores
Time:     not yet run
Result:   not yet run
"""

from training.recipe import PretrainRecipe

recipe = PretrainRecipe(
    corpus="zh/*.txt",
    layout="sentences",
    language="zh",
    held_out=0.06,
    vocab_size=5_000,
    preset="bert_mini_uncased",
    dropout=0.0,
    attention_dropout=0.0,
    sequence_length=128,
    batch_size=32,
    steps=1_500,
    optimizer="muon",
    learning_rate=3e-3,
    warmup_steps=100,
    report_every=50,
    evaluate_every=5,
    evaluation_pairs=1_000,
    checkpoint_every=5,
)
