"""Prediction methods from texts to answers, shared by all tasks and by `Predictor`."""

from bert_keras.inference.base import (
    Answer,
    Choice,
    Entity,
    Fill,
    Label,
    Ranked,
    TextMethods,
    prompt_of,
    prompt_options,
)
from bert_keras.inference.batching import Runner
from bert_keras.inference.fill_mask import MaskMethods, PairMethods, check_top_k
from bert_keras.inference.multiple_choice import ChoiceMethods
from bert_keras.inference.question_answering import AnswerMethods, RankedAnswer
from bert_keras.inference.sentence_similarity import VectorMethods, prompt_length
from bert_keras.inference.text_classification import LabelMethods
from bert_keras.inference.text_ranking import PairScoreMethods, RankingMethods
from bert_keras.inference.token_classification import TagMethods, entity_tags
from bert_keras.inference.zero_shot_classification import ZeroShotMethods

__all__ = [
    "Answer",
    "AnswerMethods",
    "Choice",
    "ChoiceMethods",
    "Entity",
    "Fill",
    "Label",
    "LabelMethods",
    "MaskMethods",
    "PairMethods",
    "PairScoreMethods",
    "Ranked",
    "RankedAnswer",
    "RankingMethods",
    "Runner",
    "TagMethods",
    "TextMethods",
    "VectorMethods",
    "ZeroShotMethods",
    "check_top_k",
    "entity_tags",
    "prompt_length",
    "prompt_of",
    "prompt_options",
]
