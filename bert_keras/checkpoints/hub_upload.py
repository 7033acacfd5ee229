"""Upload of a checkpoint folder to a repository on the Hugging Face Hub."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from bert_keras import file_io, presets
from bert_keras.checkpoints import model_card, weight_files
from bert_keras.checkpoints.hugging_face_folder import ADAPTER
from bert_keras.checkpoints.manifest import CONFIG, MANIFEST, STATE_WEIGHTS, WEIGHTS
from bert_keras.checkpoints.sentence_transformers import CONFIG as SENTENCE_CONFIG
from bert_keras.errors import ArtifactError, ResourceError, UsageError
from bert_keras.inference.base import FILE as PREDICTOR
from bert_keras.tokenizers import files

# Files that are uploaded: those of a checkpoint. The other files of a run stay on this machine: its
# optimizer state, its logs, and reports with paths of the machine.
PATTERNS = (
    *(CONFIG, MANIFEST, ADAPTER, "model*.safetensors", STATE_WEIGHTS, weight_files.INDEX),
    *(f"[0-9]*_*/{CONFIG}", f"[0-9]*_*/{WEIGHTS}", SENTENCE_CONFIG, *files.KNOWN),
    *(PREDICTOR, model_card.CARD),
)
_MESSAGE = "Upload with bert_keras"
_LOGIN = (
    "Log in with `hf auth login`, or set HF_TOKEN to a token with write permission from "
    "https://huggingface.co/settings/tokens."
)
_LATER = "Nothing changed on this machine. Repeat the upload later."


def is_remote(target: str | os.PathLike[str]) -> bool:
    """Return whether a target is a handle such as "hf://…", and not a folder."""
    return "://" in os.fspath(target)


@contextmanager
def target_folder(target: str | os.PathLike[str], *, private: bool) -> Iterator[Path]:
    """Yield the folder to write a checkpoint into.

    For a handle it is a temporary folder, which is uploaded at the end of the block.

    Args:
        target: folder, or "hf://organisation/name[@branch]".
        private: True to create a private repository.

    Raises:
        UsageError: if the handle is wrong; see also `push`.
    """
    if not is_remote(target):
        yield Path(target)
        return
    handle = os.fspath(target)
    checked_target(handle)  # refuses a wrong handle before a large model is written
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)
        try:
            push(Path(folder), handle, private=private)
        except (ResourceError, UsageError) as error:
            error.add_note(
                "The model in memory is unchanged, and no file was kept on this machine. Save the "
                "model to a folder, and upload it later: bert-keras push FOLDER "
                "hf://organisation/name"
            )
            raise


def checked_target(handle: str) -> tuple[str, str]:
    """Return repository and branch of a handle; the branch is "" for the default one.

    Args:
        handle: "hf://organisation/name" or "hf://organisation/name@branch".

    Raises:
        UsageError: if the handle has another form, or the Hub does not allow the name.
    """
    from huggingface_hub.utils import HFValidationError, validate_repo_id

    repository, branch = presets.parts_of(handle)
    if not repository:
        raise UsageError(
            "An upload needs a handle hf://organisation/name or hf://organisation/name@branch. "
            f"Received: {handle!r}"
        )
    try:
        validate_repo_id(repository)
    except HFValidationError as error:
        raise UsageError(f"{handle}: {error}") from error
    return repository, branch


def push(folder: Path, handle: str, *, private: bool = True, message: str = "") -> str:
    """Upload a checkpoint folder in one commit; return the address of its page.

    The repository is created if needed. Files of an earlier checkpoint are removed from it if the
    folder does not have them. A model card in the repository that a person wrote is replaced only
    by a card that a person wrote.

    Args:
        folder: checkpoint folder, or the folder of a run, whose model is uploaded.
        handle: "hf://organisation/name", perhaps with "@branch".
        private: True to create a private repository. It does not change an existing repository.
        message: message of the commit; "" for a default message.

    Raises:
        UsageError: if the handle or the access token is wrong, or the folder has no model.
        ArtifactError: if the folder is not in the format of Hugging Face.
        ResourceError: if the upload failed. Nothing changed on this machine.
    """
    repository, branch = checked_target(handle)
    names = _names(folder)
    presets.hide_versions()
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, get_token

    token = get_token()
    if not token:
        raise UsageError(f"{handle}: an upload needs an access token, and there is none. {_LOGIN}")
    api, revision = HfApi(token=token), branch or None
    with _explained(handle):
        api.create_repo(repository, private=private, repo_type="model", exist_ok=True)
        if branch and branch != "main":
            api.create_branch(repository, branch=branch, exist_ok=True)
        present = api.list_repo_files(repository, revision=revision)
        operations: list[Any] = [
            CommitOperationDelete(path_in_repo=name)
            for name in present
            if name not in names and name != model_card.CARD and _is_uploaded(name)
        ]
        for name in names:
            content: Any = str(folder / name)
            if name == model_card.CARD and model_card.is_own(folder / name):
                if name in present and not _is_own_card(api, repository, revision):
                    continue
                text = (folder / name).read_text(encoding="utf-8")
                content = model_card.for_repository(text, repository).encode()
            operations.append(CommitOperationAdd(path_in_repo=name, path_or_fileobj=content))
        api.create_commit(
            repository, operations, commit_message=message or _MESSAGE, revision=revision
        )
    return f"{api.endpoint}/{repository}" + (f"/tree/{branch}" if branch else "")


def _is_own_card(api: Any, repository: str, revision: str | None) -> bool:
    """Return whether this package wrote the model card of a repository and nobody changed it."""
    with tempfile.TemporaryDirectory() as folder:
        path = api.hf_hub_download(repository, model_card.CARD, revision=revision, local_dir=folder)
        return model_card.is_own(Path(path))


def _names(folder: Path) -> Collection[str]:
    """Return the files of a checkpoint folder to upload, as paths within it.

    Raises:
        UsageError: if the folder does not exist, or is that of a run that has not ended.
        ArtifactError: if the folder is no checkpoint in the format of Hugging Face.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder. Name a checkpoint folder or a run.")
    names = sorted(
        path.relative_to(folder).as_posix()
        for pattern in PATTERNS
        for path in folder.glob(pattern)
        if path.is_file()
    )
    has_weights = any(name.endswith(".safetensors") for name in names)
    if CONFIG in names and has_weights:
        return dict.fromkeys(names)
    if (folder / "run.json").is_file():
        raise UsageError(file_io.missing_file(folder / CONFIG))
    if (folder / "saved_model.pb").is_file():
        raise ArtifactError(
            f"{folder}: a SavedModel. Name the checkpoint folder or the run that it was exported "
            "from: the Hub gets checkpoints."
        )
    raise ArtifactError(
        f"{folder}: no checkpoint with {CONFIG} and {WEIGHTS}. Write one first: bert-keras "
        f"convert {folder} NEW_FOLDER"
    )


def _is_uploaded(name: str) -> bool:
    """Return whether a file of a repository has a name that an upload may write."""
    return any(
        fnmatchcase(name, pattern) and name.count("/") == pattern.count("/") for pattern in PATTERNS
    )


# === Errors ===


@contextmanager
def _explained(handle: str) -> Iterator[None]:
    """Replace errors of the Hub and of the network by errors that say what to do.

    Raises:
        UsageError: if the token has no permission, or there is no such repository or branch.
        ResourceError: if the Hub cannot be reached, or refused the upload.
    """
    try:
        with warnings.catch_warnings():
            # huggingface_hub 2.4 sends a file with an argument that its HTTP client deprecates.
            warnings.filterwarnings("ignore", "Use 'content=", DeprecationWarning)
            yield
    except (AttributeError, KeyError, NameError, TypeError):  # bugs of this package
        raise
    except Exception as error:
        raise _explanation(handle, error) from error


def _explanation(handle: str, error: Exception) -> Exception:
    """Return the error for the user, from an error of `huggingface_hub` or of its HTTP client."""
    status = _status(error)
    causes = list(dict.fromkeys(filter(None, (_first_line(error), _first_line(error.__cause__)))))
    reason = ": ".join(causes)
    said = getattr(error, "server_message", None) or reason
    if status == 401:
        return UsageError(f"{handle}: the Hub does not accept the access token. {_LOGIN}")
    if status == 403:
        return UsageError(
            f"{handle}: the access token may not write there ({said}). Choose an organisation that "
            f"you may write to, or use another token. {_LOGIN}"
        )
    if status == 404:
        return UsageError(
            f"{handle}: there is no such model repository or branch, or the access token may not "
            "write to it. Check the name: data sets and Spaces are other repositories."
        )
    if status == 413 or "too large" in said.lower():
        return ResourceError(
            f"{handle}: the Hub refuses a file as too large ({said}). Save the model with a "
            "smaller dtype, or check the storage limits of the organisation."
        )
    if status is not None:
        return ResourceError(f"{handle}: the Hub refused the upload ({status}): {said} {_LATER}")
    if type(error).__name__ == "OfflineModeIsEnabled":
        return UsageError(
            f"{handle}: an upload needs the network, and HF_HUB_OFFLINE=1 forbids it. Unset it."
        )
    return ResourceError(
        f"{handle}: the upload failed: {type(error).__name__}: {reason or 'no reason given'}. "
        f"Check the network. {_LATER}"
    )


def _first_line(error: BaseException | None) -> str:
    """Return the first line of an error's message."""
    return str(error or "").strip().partition("\n")[0].rstrip(".")


def _status(error: BaseException | None) -> int | None:
    """Return the HTTP status of an error or of its cause; None without a response."""
    while error is not None:
        status = getattr(getattr(error, "response", None), "status_code", None)
        if isinstance(status, int):
            return status
        error = error.__cause__
    return None
