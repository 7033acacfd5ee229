"""ELECTRA in minutes: which words did a small generator replace? On the English inside CPython.

Command:  bert-keras pretrain electra_demo
Hardware: 2 CPU cores (AVX-512), TensorFlow 2.21
Time:     6.6 minutes with tests running beside it, 2026-11-21
Result:   on 33 validation documents: the generator's MLM loss 5.010 nats, 0.94 under their unigram
          entropy (5.947); the discriminator's loss 0.361 nats, where knowing only how many tokens
          were replaced (12.6 %) gives 0.379; loss 37.5 -> 22.1. Twice the steps gave 4.160 and
          0.349 (of 0.361): on 1.5 MB of text the discriminator begins to learn it by heart.
"""

import dataclasses

from bert_keras.training.recipes import demo

recipe = dataclasses.replace(demo.recipe, loss="rtd", generator_size=0.5)
