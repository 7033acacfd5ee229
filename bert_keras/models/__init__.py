"""The encoder and the tasks over it, as functional Keras models."""

from bert_keras.models.distiller import Distiller
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.few_shot import FewShot, fit_few_shot
from bert_keras.models.fill_mask import MaskedLM
from bert_keras.models.multiple_choice import MultipleChoice
from bert_keras.models.pretraining import ElectraPretrainer, Pretrainer, ReplacedTokenDetector
from bert_keras.models.question_answering import QuestionAnswerer
from bert_keras.models.sentence_pairs import SentencePairs
from bert_keras.models.sentence_similarity import SentenceEncoder
from bert_keras.models.task import Task
from bert_keras.models.task_views import ChunkedTask, PackedTask
from bert_keras.models.text_classification import SequenceClassifier
from bert_keras.models.text_ranking import TextRanker
from bert_keras.models.token_classification import TokenClassifier
from bert_keras.models.with_tokenizer import checked_length, encoder_for

__all__ = [
    "BertEncoder",
    "ChunkedTask",
    "Distiller",
    "ElectraPretrainer",
    "FewShot",
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
    "TextRanker",
    "TokenClassifier",
    "checked_length",
    "encoder_for",
    "fit_few_shot",
]
