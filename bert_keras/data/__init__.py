"""Text to batches: documents, token stores, pretraining examples; supervised data to examples."""

from bert_keras.data.bins import fill_rows
from bert_keras.data.choices import read_choices, read_swag
from bert_keras.data.conll import read_conll, write_conll
from bert_keras.data.corpus import MANIFEST, Corpus
from bert_keras.data.corpus_writer import require_vacant, split_of, write
from bert_keras.data.documents import LAYOUTS, Documents, read
from bert_keras.data.examples import Answer, Choices, Question, TaggedWords, Texts
from bert_keras.data.feeding import Batch, Examples, dataset, py_dataset, tf_dataset
from bert_keras.data.labels import label_names
from bert_keras.data.masked_texts import MaskedTexts
from bert_keras.data.packed import Packable, PackedExamples
from bert_keras.data.packed_batch import pack_batch
from bert_keras.data.pair_targets import pair_examples
from bert_keras.data.pretraining import PretrainingExamples
from bert_keras.data.question_targets import choice_examples, question_examples
from bert_keras.data.rows import Rows, encode
from bert_keras.data.sampling import Draws, Stream
from bert_keras.data.splitting import rows_to_learn, validation_split
from bert_keras.data.squad import SquadReport, read_squad
from bert_keras.data.supervised import SupervisedExamples, length_multiple
from bert_keras.data.tables import read_table
from bert_keras.data.tag_schemes import from_bio, to_bio
from bert_keras.data.targets import tag_examples, targets_of, text_examples

__all__ = [
    "LAYOUTS",
    "MANIFEST",
    "Answer",
    "Batch",
    "Choices",
    "Corpus",
    "Documents",
    "Draws",
    "Examples",
    "MaskedTexts",
    "Packable",
    "PackedExamples",
    "PretrainingExamples",
    "Question",
    "Rows",
    "SquadReport",
    "Stream",
    "SupervisedExamples",
    "TaggedWords",
    "Texts",
    "choice_examples",
    "dataset",
    "encode",
    "fill_rows",
    "from_bio",
    "label_names",
    "length_multiple",
    "pack_batch",
    "pair_examples",
    "py_dataset",
    "question_examples",
    "read",
    "read_choices",
    "read_conll",
    "read_squad",
    "read_swag",
    "read_table",
    "require_vacant",
    "rows_to_learn",
    "split_of",
    "tag_examples",
    "targets_of",
    "text_examples",
    "tf_dataset",
    "to_bio",
    "validation_split",
    "write",
    "write_conll",
]
