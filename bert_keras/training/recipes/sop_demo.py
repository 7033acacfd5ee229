"""Sentence order instead of next sentences (ALBERT's objective), on the English inside CPython.

Command:  bert-keras pretrain sop_demo
Hardware: 2 CPU cores (AVX-512), TensorFlow 2.21
Time:     4.6 minutes with tests running beside it, 2026-11-21
Result:   on 33 validation documents: MLM loss 3.842 nats, 2.11 under their unigram entropy (5.947),
          MLM accuracy 35.1 %; SOP accuracy 60.0 % on 320 pairs; loss 6.87 -> 4.08
"""

import dataclasses

from bert_keras.training.recipes import demo

recipe = dataclasses.replace(demo.recipe, loss="sop")
