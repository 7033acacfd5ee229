"""The keys of other libraries' configs that are honoured in no table: irrelevant or refused.

Every key that a library writes is translated (`families`, `keras_hub_names`, `google_tf1`), or it
stands here: with the reason why it changes no answer, or with the values under which it does not.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bert_keras import strict_json
from bert_keras.checkpoints.families import FAMILIES, Family
from bert_keras.errors import ArtifactError

_ORIGIN = "who wrote the file, and from what"
_CALLER = "which outputs a call returns and in what form: `hidden_states=`, `attentions=` here"
_GENERATION = "generation of text, which encoders do not do"
_COMPUTATION = "how it is computed, not what"
_STORAGE = "the type that weights are stored in: the tensors tell it, Keras's policy computes"
_TRAINING = "training alone: nothing of it is in a saved model"
_TOKENS = "ids of special tokens, which the tokenizer's own files tell"
_TOKENIZER = "the class of the tokenizer, which `Tokenizer` reads"
_UNUSED = "written by early code that never read it"

# Hugging Face's config.json: key -> why it changes no answer.
IRRELEVANT: Mapping[str, str] = {
    **dict.fromkeys(("transformers_version", "_name_or_path", "name_or_path"), _ORIGIN),
    **dict.fromkeys(("_commit_hash", "finetuning_task", "task_specific_params"), _ORIGIN),
    **dict.fromkeys(("return_dict", "output_hidden_states", "output_attentions"), _CALLER),
    **dict.fromkeys(("output_past", "tie_last_hidden_states"), _CALLER),
    **dict.fromkeys(("chunk_size_feed_forward", "torchscript", "use_bfloat16"), _COMPUTATION),
    **dict.fromkeys(("_attn_implementation", "attn_implementation"), _COMPUTATION),
    **dict.fromkeys(("_attn_implementation_autoset", "_experts_implementation"), _COMPUTATION),
    **dict.fromkeys(("dtype", "torch_dtype"), _STORAGE),
    **dict.fromkeys(("gradient_checkpointing", "tf_legacy_loss"), _TRAINING),
    **dict.fromkeys(("summary_last_dropout", "summary_first_dropout"), _TRAINING),
    **dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), _TOKENS),
    **dict.fromkeys(("mask_token_id", "pad_token_id", "unk_token_id", "eos_token_ids"), _TOKENS),
    "tokenizer_class": _TOKENIZER,
    **dict.fromkeys(
        (
            *("use_cache", "max_length", "min_length", "do_sample", "early_stopping", "num_beams"),
            *("num_beam_groups", "diversity_penalty", "temperature", "top_k", "top_p", "typical_p"),
            *("repetition_penalty", "length_penalty", "no_repeat_ngram_size", "bad_words_ids"),
            *("encoder_no_repeat_ngram_size", "num_return_sequences", "output_scores", "prefix"),
            *("return_dict_in_generate", "forced_bos_token_id", "forced_eos_token_id"),
            *("remove_invalid_values", "exponential_decay_length_penalty", "suppress_tokens"),
            *("begin_suppress_tokens", "decoder_start_token_id", "tie_encoder_decoder"),
            "cross_attention_hidden_size",
        ),
        _GENERATION,
    ),
    **dict.fromkeys(
        (
            *("directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_type"),
            *("pooler_num_fc_layers", "pooler_size_per_head", "down_scale_factor", "gap_size"),
            *("num_memory_blocks", "tie_weights_"),
        ),
        _UNUSED,
    ),
}
# Key -> the values under which it changes nothing; any other is refused.
REQUIRED: Mapping[str, tuple[Any, ...]] = {
    "is_decoder": (None, False),
    "is_encoder_decoder": (None, False),
    "add_cross_attention": (None, False),
    "tie_word_embeddings": (None, True),
    "inner_group_num": (None, 1),
    "net_structure_type": (None, 0),
    "pruned_heads": (None, {}),
    "quantization_config": (None,),
    "compression_config": (None,),
    "per_layer_config": (None, {}),
    "adapters": (None, {}),
}
# Read elsewhere, whatever the family: the class, the head, the code of the folder's own.
_HONOURED = (
    *("model_type", "architectures", "auto_map", "id2label", "label2id", "num_labels"),
    *("_num_labels", "problem_type", "summary_activation", "summary_type", "summary_use_proj"),
    *("sentence_transformers", "sbert_ce_default_activation_function"),  # of CrossEncoder folders
)

# Google's bert_config.json and its like, which do not say a version.
GOOGLE_IRRELEVANT: Mapping[str, str] = {
    name: reason for name, reason in IRRELEVANT.items() if reason == _UNUSED
}
# KerasHub's metadata.json.
METADATA: Mapping[str, str] = dict.fromkeys(
    ("keras_version", "keras_hub_version", "parameter_count", "date_saved", "tasks"), _ORIGIN
)
# KerasHub's config.json, task.json: what Keras writes around the arguments of every object.
KERAS_OBJECT = (
    *("module", "class_name", "config", "registered_name", "build_config", "compile_config"),
    *("assets", "weights"),  # of its first presets
)
KERAS_LAYER: Mapping[str, str] = {
    "preprocessor": "packs texts: `Tokenizer` reads its vocabulary, lengths are the caller's",
    "name": "a name of the Keras object",
    "trainable": _TRAINING,
    "dtype": "the policy of the writer; `dtype=` is the caller's",
}


def warn_of_hugging_face(values: Mapping[str, Any], path: Path) -> None:
    """Warn of what a Hugging Face config says and is not read: its own code, unknown keys.

    Args:
        values: the parsed config.json.
        path: of the file, for messages.
    """
    if "auto_map" in values:
        warnings.warn(
            f"{path}: auto_map names code of the checkpoint's own, which is never run. What is "
            f"computed is a model_type={values.get('model_type')!r:.100}, if that is known here; "
            "compare the outputs.",
            stacklevel=2,
        )
    for family in FAMILIES.values():
        if values.get("model_type") in family.model_types:
            strict_json.warn_of_unknown(path, values, known_to(family))


def known_to(family: Family) -> set[str]:
    """Return the keys of a config.json of this family of which each is honoured or has a reason."""
    known = {*family.sizes.values(), *family.constants.values(), *family.head_dropout.values()}
    return known | {*_HONOURED, *IRRELEVANT, *REQUIRED}


def require(values: Mapping[str, Any], path: Path) -> None:
    """Check that no key has a value under which the model computes something else.

    Raises:
        ArtifactError: one has.
    """
    for key, accepted in REQUIRED.items():
        if not any(values.get(key) is value or values.get(key) == value for value in accepted):
            raise ArtifactError(f"{path}: not supported: {key}={values[key]!r:.200}")
