"""Export of models to other programs and runtimes, with checks and measurements of the exports."""

from bert_keras.export.clients import open_client
from bert_keras.export.export_folder import next_version
from bert_keras.export.measurement import difference, latencies, size_of
from bert_keras.export.runtime_model import runtime_model
from bert_keras.export.runtime_predictor import RuntimePredictor
from bert_keras.export.saved_model import saved_model, tf_hub
from bert_keras.layers import SavedModelLayer

__all__ = [
    "RuntimePredictor",
    "SavedModelLayer",
    "difference",
    "latencies",
    "next_version",
    "open_client",
    "runtime_model",
    "saved_model",
    "size_of",
    "tf_hub",
]
