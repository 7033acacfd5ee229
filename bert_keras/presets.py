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
from bert_keras.errors import ArtifactError
from bert_keras.published_models import PUBLISHED

PRESETS = MappingProxyType({name: config for name, (config, _) in PUBLISHED.items()})
# Name -> handle of the authors' repository on the Hugging Face hub.
HANDLES = MappingProxyType({name: f"hf://{where}" for name, (_, where) in PUBLISHED.items()})


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
