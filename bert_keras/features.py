"""Names of model inputs and outputs, and their aliases in other libraries.

Inside the package only the names below are used. Aliases are applied at the edges, by `rename`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

TOKEN_IDS = "token_ids"
SEGMENT_IDS = "segment_ids"
PADDING_MASK = "padding_mask"  # 1 = a real token, 0 = padding
MASK_POSITIONS = "mask_positions"
PROMPT_LENGTH = "prompt_length"  # tokens at the beginning that are not pooled
# Of rows that hold several examples.
EXAMPLE_IDS = "example_ids"  # a token's example within its row, from 1; 0 = padding
POSITION_IDS = "position_ids"  # from 0 within each example
FIRST_POSITIONS = "first_positions"  # where each example begins; 0 in unused slots

SEQUENCE_OUTPUT = "sequence_output"
POOLED_OUTPUT = "pooled_output"
FIRST_OUTPUT = "first_output"  # of each example's first token, [CLS]
BEFORE_LAST = "before_last"  # the last block's input
HIDDEN_STATES = "hidden_states"
ATTENTIONS = "attentions"

# One word names one thing all along: output, label key, loss, weight and metric prefix.
MLM = "mlm"
NSP = "nsp"
SOP = "sop"
RTD = "rtd"  # replaced token detection
PAIR_LOSSES = (NSP, SOP)  # the others have one segment
LABEL = "label"  # of a text or a pair
TAGS = "tags"  # of tokens
START, END = "start", "end"  # of an answer
CHOICE = "choice"
SENTENCE_VECTOR = "sentence_vector"
SIMILARITY = "similarity"  # of two texts
MATCH = "match"  # of a text, among the others of a batch
# How two vectors are compared; the last two are negative distances.
COSINE = "cosine"
SIMILARITIES = (COSINE, "dot", "euclidean", "manhattan")
# By what two texts, each read for itself, teach an encoder.
SENTENCE_PAIR_LOSSES = (SIMILARITY, "classification", "in_batch")

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
# Google's original TFRecords and graphs.
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
# Other libraries' names of these inputs.
INPUT_ALIASES = {
    theirs: ours
    for table in (HUGGING_FACE, TF_HUB, TF1)
    for ours, theirs in table.items()
    if ours in INPUTS and theirs != ours
}
# Keys of a batch that a model without such an input ignores, because they change no answer of it.
IGNORED_KEYS = frozenset(
    {
        # Positions to predict and prompts choose among tokens; segments need a segment table.
        *(MASK_POSITIONS, PROMPT_LENGTH, SEGMENT_IDS),
        # Labels, by the names of our outputs.
        *(MLM, NSP, SOP, RTD, LABEL, TAGS, START, END, CHOICE, SIMILARITY, MATCH, SENTENCE_VECTOR),
        # Labels and sample weights, as Hugging Face, KerasHub and Google's TFRecords name them.
        *("labels", "label_ids", "next_sentence_label", "next_sentence_labels"),
        *("sentence_order_label", "start_positions", "end_positions"),
        *("masked_lm_ids", "masked_lm_weights", "mask_ids", "mask_weights"),
        # What Hugging Face's tokenizers tell about the text itself.
        *("special_tokens_mask", "offset_mapping", "overflow_to_sample_mapping", "length"),
        "num_truncated_tokens",
        # Numbers of examples.
        *("idx", "unique_ids", "is_real_example"),
    }
)

_Value = TypeVar("_Value")


def rename(
    features: Mapping[str, _Value], aliases: Mapping[str, str], *, back: bool = False
) -> dict[str, _Value]:
    """Renames the keys of `features` from ours to another library's, or back.

    Args:
        features: values by name; names without an alias are kept.
        aliases: one of the tables above.
        back: from the other library's names to ours.
    """
    table = {theirs: ours for ours, theirs in aliases.items()} if back else aliases
    return {table.get(name, name): value for name, value in features.items()}
