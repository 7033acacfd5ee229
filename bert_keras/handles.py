"""Handles: a local folder, a name of `PRESETS`, or a repository of the Hugging Face hub.

Only `huggingface_hub` downloads: into its cache, with its progress, its login and its offline mode.
It is called for a name of `PRESETS` or an hf:// handle, and for nothing else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from bert_keras import atomic
from bert_keras.errors import ArtifactError
from bert_keras.presets import HANDLES

_REPOSITORY = re.compile(r"hf://([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")


def is_preset(handle: str | os.PathLike[str]) -> bool:
    """Return whether a handle is a name of `PRESETS`; a local file or folder of that name wins."""
    text = os.fspath(handle)
    return text in HANDLES and not Path(text).exists()


def resolve(handle: str | os.PathLike[str], files: Iterable[str]) -> Path:
    """Return the folder or file of a handle; download what is not in the cache yet.

    Args:
        handle: a path; a name of `PRESETS`, which stands for its published checkpoint unless there
            is a local folder of that name; or "hf://organisation/name" with or without "@revision".
        files: names or globs of the files that are needed.

    Raises:
        ArtifactError: an empty handle, no such repository, or neither network nor cache.
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
    return atomic.expanded(text)


def nearest(name: str) -> str:
    """Return the end of a message about an unknown name: the presets that look like it, or "."."""
    near = " or ".join(map(repr, get_close_matches(name, HANDLES)))
    return f"; or a preset, such as {near}?" if near else "."


def _download(name: str, handle: str, files: list[str]) -> Path:
    """Return the snapshot of a repository; `name`: what the caller gave."""
    # Before the import: otherwise each request tells the versions of Python and its libraries.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from huggingface_hub import snapshot_download

    match = _REPOSITORY.fullmatch(handle)
    if match is None or ".." in handle:
        raise ArtifactError(
            f"{handle!r}: expected a folder, or hf://organisation/name or "
            "hf://organisation/name@revision."
        )
    repository, revision = match.groups()
    try:
        return Path(snapshot_download(repository, revision=revision, allow_patterns=files))
    except (OSError, ValueError, RuntimeError) as error:  # the bases of all errors of the library
        page = f"https://huggingface.co/{repository}/tree/{revision or 'main'}"
        reason = str(error).strip().partition("\n")[0]
        stands = f", which stands for {handle}," if name != handle else ""
        random = (
            " For new, random weights of this size: load_weights=False, or "
            f"BertEncoder(PRESETS[{name!r}])."
            if name != handle
            else ""
        )
        raise ArtifactError(
            f"{name}{stands} is not in the cache and cannot be downloaded: "
            f"{type(error).__name__}: {reason} With a network, run this again. Without one, copy "
            f"from {page} those of these files that are there, {', '.join(files)}, into a folder, "
            f"and give that folder instead.{random}"
        ) from error
