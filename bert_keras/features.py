"""Names of model inputs and outputs, and their aliases in other libraries.

This package uses only the names below. `rename` translates them for files and other libraries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

TOKEN_IDS = "token_ids"
SEGMENT_IDS = "segment_ids"
PADDING_MASK = "padding_mask"  # 1 = token, 0 = padding
MASK_POSITIONS = "mask_positions"  # positions whose tokens are predicted
PROMPT_LENGTH = "prompt_length"  # number of tokens at the beginning that are not pooled
# Inputs for sequence packing: rows of several examples.
EXAMPLE_IDS = "example_ids"  # number of a token's example within its row, from 1; 0 = padding
POSITION_IDS = "position_ids"  # position of a token within its example, from 0
FIRST_POSITIONS = "first_positions"  # position of each example's first token; 0 = unused

SEQUENCE_OUTPUT = "sequence_output"
POOLED_OUTPUT = "pooled_output"
FIRST_OUTPUT = "first_output"  # output of each example's first token, [CLS]
BEFORE_LAST = "before_last"  # input of the last block
HIDDEN_STATES = "hidden_states"
ATTENTIONS = "attentions"

# Names of tasks' outputs. The label, the loss, its weight and the metrics have the same name.
MLM = "mlm"
NSP = "nsp"
SOP = "sop"
RTD = "rtd"  # replaced token detection
PAIR_LOSSES = (NSP, SOP)  # losses of sentence pairs; other losses need one segment only
LABEL = "label"  # label of a text or a pair of texts
TAGS = "tags"  # labels of tokens
START, END = "start", "end"  # first and last token of an answer
CHOICE = "choice"
SCORE = "score"  # relevance of a document for a query
SENTENCE_VECTOR = "sentence_vector"
SIMILARITY = "similarity"  # similarity of two texts
MATCH = "match"  # vectors of a batch's texts, which each text is compared with
# Similarity functions of two vectors. The last two are negative distances.
COSINE = "cosine"
SIMILARITIES = (COSINE, "dot", "euclidean", "manhattan")
# Losses of pairs of texts in separate rows; `SentencePairs` also has losses of vectors.
SENTENCE_PAIR_LOSSES = (SIMILARITY, "classification")
# Kinds of targets that a loss of sentence vectors reads.
NO_TARGETS = "none"  # the right answer is in the same example
SCORES = "scores"  # a number for each example: how similar its two texts are
CLASSES = "classes"  # a class for each example
TEACHER_SCORES = "teacher_scores"  # numbers of a teacher for each text after the first
TEACHER_VECTORS = "teacher_vectors"  # vectors of a teacher for each text

HUGGING_FACE = {
    TOKEN_IDS: "input_ids",
    SEGMENT_IDS: "token_type_ids",
    PADDING_MASK: "attention_mask",
    SEQUENCE_OUTPUT: "last_hidden_state",
    POOLED_OUTPUT: "pooler_output",
}
TF_HUB = {
    TOKEN_IDS: "input_word_ids",
    SEGMENT_IDS: "input_type_ids",
    PADDING_MASK: "input_mask",
    HIDDEN_STATES: "encoder_outputs",
}
# Names in Google's original TFRecords and graphs.
TF1 = {
    TOKEN_IDS: "input_ids",
    SEGMENT_IDS: "segment_ids",
    PADDING_MASK: "input_mask",
    MASK_POSITIONS: "masked_lm_positions",
}

# All inputs that a model may have.
INPUTS = (
    TOKEN_IDS,
    SEGMENT_IDS,
    PADDING_MASK,
    MASK_POSITIONS,
    EXAMPLE_IDS,
    POSITION_IDS,
    FIRST_POSITIONS,
    PROMPT_LENGTH,
)
# Name of an input in another library -> our name.
INPUT_ALIASES = {
    theirs: ours
    for table in (HUGGING_FACE, TF_HUB, TF1)
    for ours, theirs in table.items()
    if ours in INPUTS and theirs != ours
}
# Keys of a batch that a model without such an input ignores: they do not change its outputs.
IGNORED_KEYS = frozenset(
    {
        # Inputs of other heads, and segments for a model without a segment table.
        *(MASK_POSITIONS, PROMPT_LENGTH, SEGMENT_IDS),
        # Labels by the names of our outputs.
        *(MLM, NSP, SOP, RTD, LABEL, TAGS, START, END, CHOICE, SCORE, SIMILARITY, MATCH),
        SENTENCE_VECTOR,
        # Labels and sample weights by their names in Hugging Face, KerasHub and Google's TFRecords.
        *("labels", "label_ids", "next_sentence_label", "next_sentence_labels"),
        *("sentence_order_label", "start_positions", "end_positions"),
        *("masked_lm_ids", "masked_lm_weights", "mask_ids", "mask_weights"),
        # Outputs of Hugging Face's tokenizers about the text itself.
        *("special_tokens_mask", "offset_mapping", "overflow_to_sample_mapping", "length"),
        "num_truncated_tokens",
        # Ids of examples.
        *("idx", "unique_ids", "is_real_example"),
    }
)

_Value = TypeVar("_Value")


def rename(
    features: Mapping[str, _Value], aliases: Mapping[str, str], *, back: bool = False
) -> dict[str, _Value]:
    """Rename the keys of a dict from our names to another library's, or back.

    Args:
        features: name -> value. Names without an alias stay as they are.
        aliases: one of the tables above.
        back: True to rename from the other library's names to ours.
    """
    table = {theirs: ours for ours, theirs in aliases.items()} if back else aliases
    return {table.get(name, name): value for name, value in features.items()}
