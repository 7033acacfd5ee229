"""Published models by name, and handles of checkpoints.

A handle is a local folder, the name of a preset or a repository on the Hugging Face hub. A name
stands for its published weights in `from_preset`, in `Predictor` and in the recipe keys `encoder=`,
`teacher=` and `init_checkpoint=`. `BertEncoder(PRESETS[name])` is a new, random model of the same
sizes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType

from bert_keras import file_io
from bert_keras.config import BertConfig
from bert_keras.errors import ArtifactError

# Vocabulary sizes of the vocab.txt files that Google published with the checkpoints.
_UNCASED, _CASED, _CHINESE, _MULTILINGUAL = 30_522, 28_996, 21_128, 119_547


def _bert(vocab_size: int, num_layers: int, hidden_size: int) -> BertConfig:
    """Return a BERT config: heads of size 64, intermediate size four times the hidden size."""
    return BertConfig(
        vocab_size=vocab_size,
        num_layers=num_layers,
        hidden_size=hidden_size,
        num_heads=hidden_size // 64,
        intermediate_size=4 * hidden_size,
    )


def _roberta(vocab_size: int, num_layers: int, hidden_size: int) -> BertConfig:
    """Return a RoBERTa config: one segment, and two unused rows before the first position."""
    return _bert(vocab_size, num_layers, hidden_size).replace(
        family="roberta", num_segments=1, position_offset=2, layer_norm_epsilon=1e-5
    )


def _distilbert(vocab_size: int) -> BertConfig:
    """Return a DistilBERT config: half of BERT-base's layers, without segments and pooler."""
    return _bert(vocab_size, num_layers=6, hidden_size=768).replace(
        family="distilbert", num_segments=0, pooler=False
    )


def _albert(num_layers: int, hidden_size: int, num_heads: int | None = None) -> BertConfig:
    """Return an ALBERT config: one block for all layers, embedding tables of width 128."""
    return BertConfig(
        vocab_size=30_000,
        num_layers=num_layers,
        num_unique_layers=1,
        hidden_size=hidden_size,
        num_heads=num_heads or hidden_size // 64,
        intermediate_size=4 * hidden_size,
        embedding_size=128,
        activation="gelu_tanh",
        dropout=0.0,
        attention_dropout=0.0,
        family="albert",
    )


def _electra(
    num_layers: int, hidden_size: int, *, num_heads: int, embedding_size: int | None = None
) -> BertConfig:
    """Return an ELECTRA config: without a pooler, perhaps with tables of another width."""
    return BertConfig(
        vocab_size=_UNCASED,
        num_layers=num_layers,
        hidden_size=hidden_size,
        num_heads=num_heads,
        intermediate_size=4 * hidden_size,
        embedding_size=embedding_size,
        pooler=False,
        family="electra",
    )


def _mpnet() -> BertConfig:
    """Return the config of MPNet-base: learned positions, and buckets of distances beside them."""
    return _bert(30_527, num_layers=12, hidden_size=768).replace(
        num_segments=0,
        position_offset=2,
        attention_positions="buckets",
        position_buckets=32,
        layer_norm_epsilon=1e-5,
        family="mpnet",
    )


def _modernbert(num_layers: int, hidden_size: int, intermediate_size: int) -> BertConfig:
    """Return a ModernBERT config: local layers but for every third one, and rotary positions."""
    return BertConfig(
        vocab_size=50_368,
        num_layers=num_layers,
        hidden_size=hidden_size,
        num_heads=hidden_size // 64,
        intermediate_size=intermediate_size,
        max_positions=8192,
        num_segments=0,
        position_embedding="none",
        attention_positions="rotary",
        rotary_base=160_000.0,
        local_rotary_base=10_000.0,
        window=64,
        global_every=3,
        block="pre_norm",
        first_norm=False,
        norm_bias=False,
        layer_norm_epsilon=1e-5,
        gated=True,
        attention_bias=False,
        intermediate_bias=False,
        output_bias=False,
        pooler=False,
        dropout=0.0,
        attention_dropout=0.0,
        family="modernbert",
    )


# Name -> (config, repository of the published weights on the Hugging Face hub).
_PUBLISHED: dict[str, tuple[BertConfig, str]] = {
    # Turc et al., 2019 ("Well-Read Students Learn Better"), the compact models.
    "bert_tiny_uncased": (
        _bert(_UNCASED, num_layers=2, hidden_size=128),
        "google/bert_uncased_L-2_H-128_A-2",
    ),
    "bert_mini_uncased": (
        _bert(_UNCASED, num_layers=4, hidden_size=256),
        "google/bert_uncased_L-4_H-256_A-4",
    ),
    "bert_small_uncased": (
        _bert(_UNCASED, num_layers=4, hidden_size=512),
        "google/bert_uncased_L-4_H-512_A-8",
    ),
    "bert_medium_uncased": (
        _bert(_UNCASED, num_layers=8, hidden_size=512),
        "google/bert_uncased_L-8_H-512_A-8",
    ),
    # Devlin et al., 2019, and the releases that followed it.
    "bert_base_uncased": (
        _bert(_UNCASED, num_layers=12, hidden_size=768),
        "google-bert/bert-base-uncased",
    ),
    "bert_base_cased": (
        _bert(_CASED, num_layers=12, hidden_size=768),
        "google-bert/bert-base-cased",
    ),
    "bert_base_chinese": (
        _bert(_CHINESE, num_layers=12, hidden_size=768),
        "google-bert/bert-base-chinese",
    ),
    "bert_base_multilingual_cased": (
        _bert(_MULTILINGUAL, num_layers=12, hidden_size=768),
        "google-bert/bert-base-multilingual-cased",
    ),
    "bert_large_uncased": (
        _bert(_UNCASED, num_layers=24, hidden_size=1024),
        "google-bert/bert-large-uncased",
    ),
    "bert_large_cased": (
        _bert(_CASED, num_layers=24, hidden_size=1024),
        "google-bert/bert-large-cased",
    ),
    # Liu et al., 2019; Conneau et al., 2020.
    "roberta_base": (_roberta(50_265, num_layers=12, hidden_size=768), "FacebookAI/roberta-base"),
    "roberta_large": (
        _roberta(50_265, num_layers=24, hidden_size=1024),
        "FacebookAI/roberta-large",
    ),
    "xlm_roberta_base": (
        _roberta(250_002, num_layers=12, hidden_size=768).replace(family="xlm_roberta"),
        "FacebookAI/xlm-roberta-base",
    ),
    "xlm_roberta_large": (
        _roberta(250_002, num_layers=24, hidden_size=1024).replace(family="xlm_roberta"),
        "FacebookAI/xlm-roberta-large",
    ),
    # Martin et al., 2020; Baevski et al., 2022; Song et al., 2020.
    "camembert_base": (
        _roberta(32_005, num_layers=12, hidden_size=768).replace(family="camembert"),
        "almanach/camembert-base",
    ),
    "data2vec_text_base": (
        _roberta(50_265, num_layers=12, hidden_size=768).replace(family="data2vec_text"),
        "facebook/data2vec-text-base",
    ),
    "mpnet_base": (_mpnet(), "microsoft/mpnet-base"),
    # Warner et al., 2024, Table 4.
    "modernbert_base": (_modernbert(22, 768, 1152), "answerdotai/ModernBERT-base"),
    "modernbert_large": (_modernbert(28, 1024, 2624), "answerdotai/ModernBERT-large"),
    # Sanh et al., 2019.
    "distilbert_base_uncased": (_distilbert(_UNCASED), "distilbert/distilbert-base-uncased"),
    "distilbert_base_cased": (_distilbert(_CASED), "distilbert/distilbert-base-cased"),
    "distilbert_base_multilingual_cased": (
        _distilbert(_MULTILINGUAL),
        "distilbert/distilbert-base-multilingual-cased",
    ),
    # Lan et al., 2020, Table 1; the second version, which has no dropout.
    "albert_base_v2": (_albert(num_layers=12, hidden_size=768), "albert/albert-base-v2"),
    "albert_large_v2": (_albert(num_layers=24, hidden_size=1024), "albert/albert-large-v2"),
    "albert_xlarge_v2": (
        _albert(num_layers=24, hidden_size=2048, num_heads=16),
        "albert/albert-xlarge-v2",
    ),
    "albert_xxlarge_v2": (_albert(num_layers=12, hidden_size=4096), "albert/albert-xxlarge-v2"),
    # Clark et al., 2020, Table 6.
    "electra_small_discriminator": (
        _electra(12, 256, num_heads=4, embedding_size=128),
        "google/electra-small-discriminator",
    ),
    "electra_small_generator": (
        _electra(12, 256, num_heads=4, embedding_size=128),
        "google/electra-small-generator",
    ),
    "electra_base_discriminator": (
        _electra(12, 768, num_heads=12),
        "google/electra-base-discriminator",
    ),
    "electra_base_generator": (
        _electra(12, 256, num_heads=4, embedding_size=768),
        "google/electra-base-generator",
    ),
    "electra_large_discriminator": (
        _electra(24, 1024, num_heads=16),
        "google/electra-large-discriminator",
    ),
    "electra_large_generator": (
        _electra(24, 256, num_heads=4, embedding_size=1024),
        "google/electra-large-generator",
    ),
}

PRESETS = MappingProxyType({name: config for name, (config, _) in _PUBLISHED.items()})
# Name -> handle of the authors' repository on the Hugging Face hub.
HANDLES = MappingProxyType({name: f"hf://{where}" for name, (_, where) in _PUBLISHED.items()})


# === Handles ===
# Only `huggingface_hub` downloads, with its cache, progress bar, login and offline mode. It is
# called only for a name in `PRESETS` or an hf:// handle.


_TF_INDEX = ".index"  # ending of one file of a TensorFlow checkpoint
_REPOSITORY = re.compile(r"hf://([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")


def is_preset(handle: str | os.PathLike[str]) -> bool:
    """Return whether a handle is a name in `PRESETS`, and not a local file or folder."""
    text = os.fspath(handle)
    return text in HANDLES and not Path(text).exists()


def repository_of(handle: str | os.PathLike[str]) -> str:
    """Return the repository "organisation/name" that a handle stands for; "" for a local one."""
    text = os.fspath(handle)
    return parts_of(HANDLES[text] if is_preset(text) else text)[0]


def parts_of(handle: str) -> tuple[str, str]:
    """Return repository and revision of "hf://organisation/name@revision"; "" for what it lacks."""
    match = None if ".." in handle else _REPOSITORY.fullmatch(handle)
    return (match[1], match[2] or "") if match is not None else ("", "")


def hide_versions() -> None:
    """Keep `huggingface_hub` from sending the versions of Python and libraries with a request.

    The library reads this setting when it is imported.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")


def resolve_handle(handle: str | os.PathLike[str], files: Iterable[str]) -> Path:
    """Return the local folder or file of a handle, after a download if needed.

    Args:
        handle: path, also one of `tensorflow_prefix`, which stands for its folder; name in
            `PRESETS`, which stands for its published checkpoint unless there is a local folder of
            that name; or "hf://organisation/name", perhaps with "@revision".
        files: names or globs of the files that are needed.

    Raises:
        ArtifactError: if the handle is empty, the repository does not exist, or it is not in the
            cache and there is no network.
    """
    text = os.fspath(handle)
    if not text:
        raise ArtifactError(
            "The handle is empty. Name a folder ('.' for this one), a preset, or "
            "hf://organisation/name."
        )
    if is_preset(text):
        return _download(text, HANDLES[text], list(files))
    if "://" in text:
        return _download(text, text, list(files))
    path = file_io.expanded(text)
    try:
        return path.parent if tensorflow_prefix(text) else path
    except OSError as error:  # a name that is too long for a file system
        raise ArtifactError(
            f"{text[:100]!r}…: no folder can have this name: {error.strerror}."
        ) from None


def tensorflow_prefix(handle: str | os.PathLike[str]) -> str:
    """Return the name of a TensorFlow checkpoint that a handle states; "" for other handles.

    "FOLDER/model.ckpt-2000" states one checkpoint of several in a folder, of which TensorFlow
    writes the files `model.ckpt-2000.index` and `model.ckpt-2000.data-…`.
    """
    path = file_io.expanded(handle)
    if path.suffix == _TF_INDEX and path.is_file():
        return path.stem
    is_one = not path.exists() and Path(f"{path}{_TF_INDEX}").is_file()
    return path.name if is_one else ""


def nearest_name(name: str) -> str:
    """Return the end of a message about an unknown name: similar presets, or "."."""
    near = " or ".join(map(repr, get_close_matches(name, HANDLES)))
    return f"; or a preset, such as {near}?" if near else "."


def _download(name: str, handle: str, files: list[str]) -> Path:
    """Return the folder of a repository in the cache; `name` is the caller's handle.

    Raises:
        ArtifactError: if the handle is malformed, or the repository cannot be downloaded.
    """
    hide_versions()
    from huggingface_hub import snapshot_download  # pyright: ignore[reportUnknownVariableType]

    repository, revision = parts_of(handle)
    if not repository:
        raise ArtifactError(
            f"{handle!r}: expected a folder, or hf://organisation/name or "
            "hf://organisation/name@revision."
        )
    try:
        return Path(snapshot_download(repository, revision=revision or None, allow_patterns=files))
    except (OSError, ValueError, RuntimeError) as error:  # base classes of the library's errors
        page = f"https://huggingface.co/{repository}/tree/{revision or 'main'}"
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        stands = f", which stands for {handle}," if name != handle else ""
        random = (
            " For new, random weights of this size in Python: "
            f"bert_keras.BertEncoder(bert_keras.PRESETS[{name!r}])."
            if name != handle
            else ""
        )
        at = f" --revision {revision}" if revision else ""
        raise ArtifactError(
            f"{name}{stands} is not in the cache and cannot be downloaded: "
            f"{type(error).__name__}: {reason}. With a network, run this again. Without one, run "
            f"on another computer: hf download {repository}{at} --local-dir FOLDER. Then copy "
            f"FOLDER to this one, and name it instead. The files are those of {page}.{random}"
        ) from None
