"""Wiring: a config becomes a functional Keras model."""

from bert_keras.models.chunked import ChunkedTask
from bert_keras.models.classifier import SequenceClassifier
from bert_keras.models.distiller import Distiller
from bert_keras.models.electra import ElectraPretrainer
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.masked_lm import MaskedLM
from bert_keras.models.multiple_choice import MultipleChoice
from bert_keras.models.packed import PackedTask
from bert_keras.models.pretrainer import Pretrainer
from bert_keras.models.question_answerer import QuestionAnswerer
from bert_keras.models.replaced_token_detector import ReplacedTokenDetector
from bert_keras.models.sentence_encoder import SentenceEncoder
from bert_keras.models.sentence_pairs import SentencePairs
from bert_keras.models.task import Task
from bert_keras.models.token_classifier import TokenClassifier

__all__ = [
    "BertEncoder",
    "ChunkedTask",
    "Distiller",
    "ElectraPretrainer",
    "MaskedLM",
    "MultipleChoice",
    "PackedTask",
    "Pretrainer",
    "QuestionAnswerer",
    "ReplacedTokenDetector",
    "SentenceEncoder",
    "SentencePairs",
    "SequenceClassifier",
    "Task",
    "TokenClassifier",
]
