"""A small encoder like ModernBERT on 20 MB of English Wikipedia, to compare with wiki_mini.

Command:  bert-keras pretrain modern_mini corpus=../shared/data/enwiki/enwiki_20MB.txt
Hardware: 2 CPU cores (AVX-512), TensorFlow 2.21
Result:   after 650 steps, 10 minutes: MLM loss 5.75 nats; wiki_mini has 6.60 then (mean of three
          seeds, `python -m benchmarks.pretraining_recipes --seconds 600`, 2026-11-29). The whole
          run was not measured.

Blocks are pre-norm, without biases, with rotary positions and gated feed-forward layers. The first
and the last layer are global, the two between them have a window of 64 tokens to each side. Text,
vocabulary, batches, schedule and the number of weights of a block are those of `wiki_mini`. The
model has no segments, so only masked tokens are trained. `python -m benchmarks.pretraining_recipes`
trains both for the same seconds and compares their losses on the same validation examples.
"""

import dataclasses

from bert_keras.training.recipes import wiki_mini

recipe = dataclasses.replace(
    wiki_mini.recipe,
    loss="mlm",
    config="modernbert_base",
    hidden_size=256,
    num_layers=4,
    num_heads=4,
    intermediate_size=680,  # three matrices with as many weights as two of width 1,024
    max_positions=512,
)
