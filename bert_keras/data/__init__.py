"""Text to batches: documents, token stores, pretraining examples; supervised data to examples."""

from bert_keras.data.annotation_files import annotation_format, read_entities
from bert_keras.data.batch_datasets import dataset, py_dataset, tf_dataset
from bert_keras.data.batches import BaseExamples, Batch, Examples
from bert_keras.data.class_names import label_names
from bert_keras.data.corpus import MANIFEST, Corpus
from bert_keras.data.corpus_writer import SPLIT_FOLDERS, require_vacant, split_of, write
from bert_keras.data.counter_rng import Draws, Stream
from bert_keras.data.demo_corpus import demo_documents, write_demo_corpus
from bert_keras.data.documents import LAYOUTS, Documents, read
from bert_keras.data.entity_spans import tag_words
from bert_keras.data.examples import Answer, Choices, Question, TaggedWords, Texts
from bert_keras.data.fill_mask import MaskedTexts
from bert_keras.data.long_texts import CutTexts, encode_long
from bert_keras.data.model_inputs import EncodedTexts, encode
from bert_keras.data.multiple_choice import choice_examples, read_choices, read_swag
from bert_keras.data.passages import Passage, sentence_passages, token_passages
from bert_keras.data.pretraining import PretrainingExamples
from bert_keras.data.question_answering import SquadReport, question_examples, read_squad
from bert_keras.data.sentence_similarity import few_shot_examples, group_examples, pair_examples
from bert_keras.data.sequence_packing import PackedExamples, fill_rows, pack_batch
from bert_keras.data.supervised import (
    SupervisedExamples,
    length_multiple,
    num_training_rows,
    validation_split,
)
from bert_keras.data.table_columns import split_folder
from bert_keras.data.tag_schemes import from_bio, to_bio
from bert_keras.data.text_classification import read_table, targets_of, text_examples
from bert_keras.data.text_ranking import grouped_by_query, ranking_examples
from bert_keras.data.token_classification import read_conll, tag_examples, write_conll

__all__ = [
    "LAYOUTS",
    "MANIFEST",
    "SPLIT_FOLDERS",
    "Answer",
    "BaseExamples",
    "Batch",
    "Choices",
    "Corpus",
    "CutTexts",
    "Documents",
    "Draws",
    "EncodedTexts",
    "Examples",
    "MaskedTexts",
    "PackedExamples",
    "Passage",
    "PretrainingExamples",
    "Question",
    "SquadReport",
    "Stream",
    "SupervisedExamples",
    "TaggedWords",
    "Texts",
    "annotation_format",
    "choice_examples",
    "dataset",
    "demo_documents",
    "encode",
    "encode_long",
    "few_shot_examples",
    "fill_rows",
    "from_bio",
    "group_examples",
    "grouped_by_query",
    "label_names",
    "length_multiple",
    "num_training_rows",
    "pack_batch",
    "pair_examples",
    "py_dataset",
    "question_examples",
    "ranking_examples",
    "read",
    "read_choices",
    "read_conll",
    "read_entities",
    "read_squad",
    "read_swag",
    "read_table",
    "require_vacant",
    "sentence_passages",
    "split_folder",
    "split_of",
    "tag_examples",
    "tag_words",
    "targets_of",
    "text_examples",
    "tf_dataset",
    "to_bio",
    "token_passages",
    "validation_split",
    "write",
    "write_conll",
    "write_demo_corpus",
]
