"""What a handle names on this machine: a folder, or a repository of the Hugging Face hub.

Only `huggingface_hub` downloads: into its cache, with its progress, its login and its offline mode.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from bert_keras.errors import ArtifactError

_SCHEME = "hf://"
_REPOSITORY = re.compile(r"hf://([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")


def resolve(handle: str | os.PathLike[str], files: Iterable[str]) -> Path:
    """The folder or file of a handle; downloads what is not in the cache yet.

    Args:
        handle: a path, or "hf://organisation/name" with "@revision" or without.
        files: names or globs of those that are needed.

    Raises:
        ArtifactError: no such repository, or no network.
        ImportError: `huggingface_hub` is not installed.
    """
    text = os.fspath(handle)
    if "://" not in text:
        return Path(text).expanduser()
    match = _REPOSITORY.fullmatch(text)
    if match is None or ".." in text:
        raise ArtifactError(
            f"{text!r}: expected a folder, or hf://organisation/name or "
            "hf://organisation/name@revision."
        )
    # Else each request tells the versions of Python, TensorFlow and PyTorch.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise ImportError(
            f'{_SCHEME} needs huggingface_hub. Install with: pip install "bert-keras[hub]"'
        ) from error
    repository, revision = match.groups()
    wanted = list(files)
    try:
        return Path(snapshot_download(repository, revision=revision, allow_patterns=wanted))
    except (OSError, ValueError, RuntimeError) as error:  # what its errors are, one by one
        page = f"https://huggingface.co/{repository}/tree/{revision or 'main'}"
        reason = str(error).strip().partition("\n")[0]
        raise ArtifactError(
            f"{text}: not in the cache, and not to be had: {type(error).__name__}: {reason} "
            f"Without a network: download from {page} those of these files that are there, "
            f"{', '.join(wanted)}, into a folder, and give that folder instead."
        ) from error
