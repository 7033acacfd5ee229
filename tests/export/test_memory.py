"""Ten thousand calls of all lengths need no more memory and no further trace."""

from __future__ import annotations

from pathlib import Path

import keras
import pytest

from bert_keras import export
from bert_keras.models import BertEncoder, SequenceClassifier
from bert_keras.tokenizers import Tokenizer
from tests.contracts import TINY, as_trained
from tests.processes import run_client

pytest.importorskip("tensorflow")
if keras.backend.backend() != "tensorflow":
    pytest.skip("SavedModels are written on the TensorFlow backend", allow_module_level=True)
if not Path("/proc/self/statm").is_file():
    pytest.skip("this platform does not tell what a process has", allow_module_level=True)

pytestmark = pytest.mark.slow  # ten thousand calls
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh", "##b"]
CALLS, WARM, MOST = 10_000, 500, 16  # `MOST` is a limit in MB

# oneDNN caches the last 1,024 sizes of each operation, so the client runs without oneDNN.
CLIENT = """
import sys
import numpy, tensorflow as tf
from tensorflow.python.eager import context
run = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
draw = numpy.random.default_rng(0)
texts = [" ".join(draw.choice(list("abcdefgh"), size)) for size in draw.integers(0, 100, 2000)]
def megabytes():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6
for call in range(int(sys.argv[2])):
    if call == int(sys.argv[3]):
        before = megabytes(), len(context.context().list_function_names())
    start, size = draw.integers(0, 1990), draw.integers(0, 4)
    run(text=tf.constant(texts[start : start + size], tf.string))
print(megabytes() - before[0], len(context.context().list_function_names()) - before[1])
"""


def test_it_does_not_grow(tmp_path: Path) -> None:
    config = TINY.replace(vocab_size=len(VOCABULARY), max_positions=128, num_layers=1)
    task = as_trained(SequenceClassifier(BertEncoder(config), 2))
    path = export.saved_model(task, Tokenizer(VOCABULARY), tmp_path / "1", portable=True)
    printed = run_client(
        CLIENT, str(path), str(CALLS), str(WARM), folder=tmp_path, TF_ENABLE_ONEDNN_OPTS="0"
    )
    grown, traced = printed.split()
    assert float(grown) < MOST
    assert int(traced) == 0
