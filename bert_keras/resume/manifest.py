"""The seal of a folder: MANIFEST.json, size and sha256 of every file in it.

Tensor files alone do not notice a flipped bit; the manifest does.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from bert_keras import atomic, strict_json
from bert_keras.errors import ArtifactError

NAME = "MANIFEST.json"
_FORMAT = "bert_keras training checkpoint 1"


def seal(folder: Path) -> None:
    """Writes the manifest of all files in `folder`; nothing may be written there afterwards."""
    files = {path.name: _fingerprint(path) for path in sorted(folder.iterdir())}
    text = json.dumps({"format": _FORMAT, "files": files}, indent=1, sort_keys=True) + "\n"
    atomic.write_text(folder / NAME, text)


def verify(folder: Path) -> None:
    """Reads every file again and compares.

    Raises:
        ArtifactError: names the file that is damaged, missing or unreadable.
    """
    path = folder / NAME
    try:
        path.open("rb").close()  # for the reason why it cannot be opened
        manifest = strict_json.read(path)
    except FileNotFoundError:
        raise ArtifactError(f"{path}: missing") from None
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read ({error.strerror})") from error
    except ArtifactError as error:
        raise ArtifactError(f"{path}: damaged") from error
    values = manifest if isinstance(manifest, dict) else {}
    files = values.get("files")
    if values.get("format") != _FORMAT or not isinstance(files, dict):
        raise ArtifactError(f"{path}: damaged, or of another version of this package")
    for name, expected in files.items():
        path = folder / name
        try:
            received = _fingerprint(path)
        except FileNotFoundError:
            raise ArtifactError(f"{path}: missing") from None
        except OSError as error:
            raise ArtifactError(f"{path}: cannot be read ({error.strerror})") from error
        if received != expected:
            raise ArtifactError(f"{path}: damaged. Expected {expected}. Received: {received}")


def _fingerprint(path: Path) -> dict[str, str | int]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return {"sha256": digest.hexdigest(), "size": file.tell()}
