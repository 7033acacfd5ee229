"""Tables of Hugging Face's names for layers, heads, classes and config keys."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bert_keras import file_io
from bert_keras.checkpoints.hugging_face_bert_variants import BERT_VARIANTS
from bert_keras.checkpoints.hugging_face_deberta import DEBERTA_FAMILIES
from bert_keras.checkpoints.hugging_face_encoders import MORE_FAMILIES, ROBERTA
from bert_keras.checkpoints.hugging_face_family import (
    BLOCK,
    CLASSIFIERS,
    CLASSIFYING,
    CONSTANTS,
    DEEP_LABEL,
    DEFAULTS,
    EMBEDDINGS,
    NO_DROPOUT,
    PREDICTIONS,
    SECOND_NAMES,
    SINUSOIDAL,
    SIZES,
    Family,
    classes_of,
)
from bert_keras.checkpoints.hugging_face_prenorm import PRENORM_FAMILIES
from bert_keras.checkpoints.hugging_face_rotary import ROTARY_FAMILIES
from bert_keras.config_checks import POSITION_EMBEDDINGS
from bert_keras.errors import ArtifactError

# The names of the first PyTorch port are in `hugging_face`.

_ALIBI = (
    "This is JinaBERT v2 or MosaicBERT, code of a folder that is never run. Use "
    "jinaai/jina-embeddings-v3-hf, or ModernBERT"
)
FAMILIES = {
    "bert": Family(
        model_types=("bert",),
        prefix="bert.",
        encoder={**EMBEDDINGS, **BLOCK, "pooler/dense": "pooler.dense"},
        heads={
            **PREDICTIONS,
            "nsp/dense": "cls.seq_relationship",
            "sop/dense": "cls.seq_relationship",
            **CLASSIFIERS,
        },
        classes=classes_of("Bert", Pretrainer="ForPreTraining"),
        # Code in folders of JinaBERT v2 and MosaicBERT computes something else.
        required={"position_embedding_type": POSITION_EMBEDDINGS, "alibi_starting_size": (None,)},
        advice=dict.fromkeys(("position_embedding_type", "alibi_starting_size"), _ALIBI),
        redundant=SECOND_NAMES,
    ),
    "roberta": ROBERTA,
    "distilbert": Family(
        model_types=("distilbert",),
        prefix="distilbert.",
        encoder={
            **{name: theirs for name, theirs in EMBEDDINGS.items() if "segment" not in name},
            "block_#/attention/query": "transformer.layer.#.attention.q_lin",
            "block_#/attention/key": "transformer.layer.#.attention.k_lin",
            "block_#/attention/value": "transformer.layer.#.attention.v_lin",
            "block_#/attention/output": "transformer.layer.#.attention.out_lin",
            "block_#/attention_layer_norm": "transformer.layer.#.sa_layer_norm",
            "block_#/feedforward/intermediate": "transformer.layer.#.ffn.lin1",
            "block_#/feedforward/output": "transformer.layer.#.ffn.lin2",
            "block_#/feedforward_layer_norm": "transformer.layer.#.output_layer_norm",
        },
        heads={
            "mlm/dense": "vocab_transform",
            "mlm/layer_norm": "vocab_layer_norm",
            "mlm": "vocab_projector",
            **CLASSIFIERS,
            "label/dense": "pre_classifier",
            "choice/dense": "pre_classifier",
        },
        classes=classes_of("DistilBert"),
        sizes={
            "vocab_size": "vocab_size",
            "hidden_size": "dim",
            "num_layers": "n_layers",
            "num_heads": "n_heads",
            "intermediate_size": "hidden_dim",
            "max_positions": "max_position_embeddings",
        },
        constants={
            "activation": "activation",
            "dropout": "dropout",
            "attention_dropout": "attention_dropout",
            "initializer_range": "initializer_range",
            "position_embedding": "sinusoidal_pos_embds",
        },
        defaults={
            "activation": "gelu",
            "dropout": 0.1,
            "attention_dropout": 0.1,
            "initializer_range": 0.02,
            "sinusoidal_pos_embds": False,
        },
        conversions={"position_embedding": SINUSOIDAL},
        fixed={"num_segments": 0, "pooler": False, "layer_norm_epsilon": 1e-12},
        redundant=("embeddings.position_ids", "vocab_projector.weight"),
        hidden_activation={"SequenceClassifier": "relu", "MultipleChoice": "relu"},
        hidden_dropout=0.0,
        head_dropout={
            "SequenceClassifier": "seq_classif_dropout",
            "MultipleChoice": "seq_classif_dropout",
            "QuestionAnswerer": "qa_dropout",
        },
    ),
    "albert": Family(
        model_types=("albert",),
        prefix="albert.",
        encoder={
            **EMBEDDINGS,
            "embeddings/projection": "encoder.embedding_hidden_mapping_in",
            **{
                f"block_#/{ours}": f"encoder.albert_layer_groups.#.albert_layers.0.{theirs}"
                for ours, theirs in {
                    "attention/query": "attention.query",
                    "attention/key": "attention.key",
                    "attention/value": "attention.value",
                    "attention/output": "attention.dense",
                    "attention_layer_norm": "attention.LayerNorm",
                    "feedforward/intermediate": "ffn",
                    "feedforward/output": "ffn_output",
                    "feedforward_layer_norm": "full_layer_layer_norm",
                }.items()
            },
            "pooler/dense": "pooler",
        },
        heads={
            "mlm/dense": "predictions.dense",
            "mlm/layer_norm": "predictions.LayerNorm",
            "mlm": "predictions",
            "sop/dense": "sop_classifier.classifier",
            **CLASSIFIERS,
        },
        classes=classes_of("Albert", Pretrainer="ForPreTraining"),
        sizes={**SIZES, "embedding_size": "embedding_size"},
        constants={**CONSTANTS, "num_unique_layers": "num_hidden_groups"},
        defaults={
            **DEFAULTS,
            **NO_DROPOUT,
            "hidden_act": "gelu_new",
            "num_hidden_groups": 1,
        },
        redundant=(
            "embeddings.position_ids",
            "predictions.decoder.weight",
            "predictions.decoder.bias",
        ),
        head_dropout=dict.fromkeys(CLASSIFYING, "classifier_dropout_prob"),
        needs_projection=True,
    ),
    "electra": Family(
        model_types=("electra",),
        prefix="electra.",
        encoder={**EMBEDDINGS, "embeddings/projection": "embeddings_project", **BLOCK},
        heads={
            "mlm/dense": "generator_predictions.dense",
            "mlm/layer_norm": "generator_predictions.LayerNorm",
            "mlm": "generator_lm_head",
            "rtd/dense": "discriminator_predictions.dense",
            "rtd/output": "discriminator_predictions.dense_prediction",
            **CLASSIFIERS,
            **DEEP_LABEL,
            "choice/dense": "sequence_summary.summary",
        },
        classes=classes_of("Electra", ReplacedTokenDetector="ForPreTraining"),
        sizes={**SIZES, "embedding_size": "embedding_size"},
        fixed={"pooler": False},
        redundant=("embeddings.position_ids", "generator_lm_head.weight"),
        hidden_activation={"SequenceClassifier": "gelu", "MultipleChoice": "gelu"},
        mlm_activation="gelu",
    ),
    **MORE_FAMILIES,
    **PRENORM_FAMILIES,
    **ROTARY_FAMILIES,
    **DEBERTA_FAMILIES,
    **BERT_VARIANTS,
}

_BERT, _ELECTRA = FAMILIES["bert"], FAMILIES["electra"]
# Names for models that no family of Hugging Face has, such as a BERT that shares blocks. They cover
# every layer of this package.
NATIVE = Family(
    model_types=("bert_keras",),
    prefix=_BERT.prefix,
    encoder={
        **_ELECTRA.encoder,
        **_BERT.encoder,
        "embeddings/task": "embeddings.task_type_embeddings",
        "distance_bias/table": "encoder.relative_attention_bias",
        "distance_vectors/table": "encoder.rel_embeddings",
        "distance_vectors/layer_norm": "encoder.LayerNorm",
        "block_#/attention/position_query": "encoder.layer.#.attention.self.pos_query_proj",
        "block_#/attention/position_key": "encoder.layer.#.attention.self.pos_key_proj",
        "block_#/feedforward/gate": "encoder.layer.#.intermediate.gate",
        "final_norm": "encoder.final_norm",
    },
    heads={
        **{path: name for path, name in _ELECTRA.heads.items() if path.startswith("rtd/")},
        **_BERT.heads,
        "mlm/second_dense": "cls.predictions.transform.second_dense",
        "mlm/output": "mlm_output",
        "generator/projection": "generator.embeddings_project",
        **{f"generator/{path}": f"generator.{name}" for path, name in BLOCK.items()},
        **{
            f"{head}/{layer}": f"{head}_{layer}"
            for head in ("label", "tags", "span", "choice")
            for layer in ("dense", "layer_norm")
        },
        "crf": "crf",
        "mix": "mix",
    },
    classes={"ElectraPretrainer": "", "SentencePairs": ""},  # classes that no other family has
    redundant=_BERT.redundant,
)


# === Other config keys ===
# A key is either translated (in `FAMILIES`, `keras_hub_names` or `google_tf1`) or listed here, with
# the reason why it does not change the outputs or with the values that do not change them.


_ORIGIN = "origin of the file: the program and model that it was written from"
_CALLER = "outputs that a call returns; here the arguments `hidden_states=` and `attentions=`"
_GENERATION = "generation of text, which encoders do not do"
_COMPUTATION = "method of the computation; the results are the same"
_STORAGE = "type of the stored weights; the tensors state it, and Keras's dtype policy computes"
_TRAINING = "used in training only, not part of a saved model"
_TOKENS = "ids of special tokens; the tokenizer's own files state them"
_TOKENIZER = "class of the tokenizer; `Tokenizer` reads it"
_UNUSED = "written by early code that never read it"

# Key of Hugging Face's config.json -> reason why it does not change the outputs.
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
# Key -> values that do not change the outputs. Any other value is refused.
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
# Keys of all families that other code reads: class, head, code that the folder brings along.
_HONOURED = (
    *("model_type", "architectures", "auto_map", "id2label", "label2id", "num_labels"),
    *("_num_labels", "problem_type", "summary_activation", "summary_type", "summary_use_proj"),
    *("sentence_transformers", "sbert_ce_default_activation_function"),  # of CrossEncoder folders
)

# Keys that state which layers are local; see `hugging_face_config`.
_LAYER_TYPES = ("layer_types", "global_attn_every_n_layers")

# Keys of Google's configs, such as bert_config.json.
GOOGLE_IRRELEVANT: Mapping[str, str] = {
    name: reason for name, reason in IRRELEVANT.items() if reason == _UNUSED
}
KERAS_LAYER: Mapping[str, str] = {
    "preprocessor": "tokenization; `Tokenizer` reads its vocabulary, the caller sets the length",
    "name": "name of the Keras object",
    "trainable": _TRAINING,
    "dtype": "dtype policy of the writer; the caller sets `dtype=`",
}


def warn_of_hugging_face(values: Mapping[str, Any], path: Path) -> None:
    """Warn of code and of unknown keys in a Hugging Face config, which are not read.

    Args:
        values: parsed config.json.
        path: path of the file, for messages.
    """
    kind = values.get("model_type")
    name = family_name(values)
    family = None if name is None else FAMILIES[name]
    if "auto_map" in values and not (family is not None and family.has_own_code):
        warnings.warn(
            f"{path}: auto_map names code of the checkpoint's own, which is never run. What is "
            f"computed is a model_type={kind!r:.100}, if that is known here; compare the outputs.",
            stacklevel=2,
        )
    if family is not None:
        file_io.warn_of_unknown_keys(path, values, known_to(family))


def family_name(values: Mapping[str, Any]) -> str | None:
    """Return the name of the family that a config.json states; None if it is not known."""
    kind = values.get("model_type")
    names = [name for name, family in FAMILIES.items() if kind in family.model_types]
    # A family that only some values select comes before the others of the same kind.
    for name in sorted(names, key=lambda name: -len(FAMILIES[name].selected_by)):
        selected_by = FAMILIES[name].selected_by
        if all(values.get(key) == value for key, value in selected_by.items()):
            return name
    return None


def known_to(family: Family) -> set[str]:
    """Return the config.json keys of a family that are read, or known to change no output."""
    known = {*family.sizes.values(), *family.constants.values(), *family.head_dropout.values()}
    known |= {*family.required, *family.irrelevant, *family.same_as, *family.selected_by}
    known |= {key for values in family.shown_by.values() for key in values}
    known |= {key for conversion in family.joint.values() for key in conversion.keys}
    known |= {*filter(None, [family.pooling, family.hidden_dropout_key]), *family.mlm_sizes}
    known |= {name for names in family.aliases.values() for name in names}
    known |= {*filter(None, [family.head_size])}
    known |= set(_LAYER_TYPES) if family.has_layer_types else set()
    return {key.partition("/")[0] for key in known} | {*_HONOURED, *IRRELEVANT, *REQUIRED}


def require_known_values(
    values: Mapping[str, Any], path: Path, family: Family | None = None
) -> None:
    """Refuse values of `REQUIRED` keys with which the model would compute something else.

    Args:
        values: parsed config.json.
        path: path of the file, for messages.
        family: family of the model; None if it is not known.

    Raises:
        ArtifactError: if a key has such a value.
    """
    for key, accepted in REQUIRED.items():
        if key == "tie_word_embeddings" and family is not None and family.may_be_untied:
            accepted = (None, True, False)
        if not any(values.get(key) is value or values.get(key) == value for value in accepted):
            supported = ", ".join(repr(value) for value in accepted if value is not None)
            raise ArtifactError(
                f"{path}: not supported: {key}={values[key]!r:.200}, with which the model computes "
                f"something else. Supported: {supported or 'a config without this key'}"
            )


# === Classes of a folder ===

# Names of all our classes that a folder can hold.
CLASSES = {name for family in (*FAMILIES.values(), NATIVE) for name in family.classes}
# Classes that compute sentence embeddings. They share the options below.
VECTOR_CLASSES = ("SentenceEncoder", "SentencePairs")
VECTOR_OPTIONS = (
    *("pooling", "normalize", "include_prompt", "dense", "truncate_dim", "similarity"),
    *("prompts", "default_prompt_name"),
)
# Heads in a weights file -> our class, for a config.json that states no class or an incomplete one.
CLASS_OF_HEADS: Mapping[frozenset[str], str] = {
    frozenset(): "BertEncoder",
    frozenset({"mlm"}): "MaskedLM",
    frozenset({"mlm", "nsp", "sop"}): "Pretrainer",  # BERT's names have one tensor for NSP and SOP
    frozenset({"mlm", "sop"}): "Pretrainer",
    frozenset({"rtd"}): "ReplacedTokenDetector",
}
