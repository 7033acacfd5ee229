"""The small BERT of d2l.ai: 50 steps on WikiText-2, with settings that learn more in them.

Command:  bert-keras pretrain d2l_wikitext2 corpus=PATH/valid.txt
Hardware: 2 CPU cores (AVX-512), TensorFlow 2.21
Time:     2.9 minutes of training, beside other work, 2026-11-27
Result:   on test.txt, mean of three seeds (`python -m benchmarks.d2l`): MLM loss 5.658 nats, 0.50
          under the cross-entropy of word frequencies (6.161); NSP loss 0.583, accuracy 64.0 % on
          4,864 pairs. The settings of d2l.ai: MLM loss 6.208, NSP loss 0.697, accuracy 50.0 %

PATH is the folder of WikiText-2. Name the file valid.txt, not the folder: its other files would be
trained on too, and test.txt is kept for measuring. The recipe then learns a subword vocabulary and
takes a tenth of the documents of valid.txt for validation.

The size, the batch and the number of steps are those of the book "Dive into Deep Learning". The
result above is of the book's own text and vocabulary. In a clone of the repository, these commands
write them as a corpus (valid.txt to train on, test.txt for validation), and train on it:

    python -m benchmarks.d2l --data PATH --prepare corpora/d2l
    bert-keras pretrain d2l_wikitext2
"""

from bert_keras.training import PretrainRecipe

recipe = PretrainRecipe(
    corpus="corpora/d2l",
    validation_split=0.1,
    vocab_size=8_000,
    config="bert_tiny_uncased",  # 2 layers, 128 wide, 2 heads
    intermediate_size=256,
    max_positions=64,
    # 50 steps underfit: dropout would cost, not help.
    dropout=0.0,
    attention_dropout=0.0,
    # Larger first weights learn the sentence pairs too. With 0.02 they were still at chance after
    # 50 steps at a rate of 0.01.
    initializer_range=0.05,
    sequence_length=64,
    short_seq_prob=0.0,
    batch_size=512,
    steps=50,
    optimizer="muon",
    learning_rate=0.03,
    warmup_steps=3,
    log_every=10,
    evaluate_every=5,
    eval_examples=5_000,
    checkpoint_every=5,
)
