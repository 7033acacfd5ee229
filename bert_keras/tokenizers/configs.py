"""What tokenizer_config.json and special_tokens_map.json say, checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from bert_keras.errors import ArtifactError
from bert_keras.strict_json import read_object
from bert_keras.tokenizers.scheme import ROLES

CONFIG = "tokenizer_config.json"
SPECIAL_TOKENS_MAP = "special_tokens_map.json"
# Our switches by their names in this file.
SWITCHES = {
    "lowercase": "do_lower_case",
    "strip_accents": "strip_accents",
    "split_cjk": "tokenize_chinese_chars",
}
# Classes that take any tokenizer.json as it is.
_GENERAL = ("PreTrainedTokenizer", "TokenizersBackend")


@dataclasses.dataclass(frozen=True)
class TokenizerConfig:
    """The files' content.

    Attributes:
        path: of the first, for messages.
        values: what it says; nothing where there is none.
        tokens: special tokens by role, as far as the files say.
    """

    path: Path
    values: Mapping[str, Any]
    tokens: Mapping[str, str]

    @classmethod
    def read(cls, folder: Path) -> TokenizerConfig:
        """Reads them, where they are.

        Raises:
            ArtifactError: damaged, or a special token that is no text.
        """
        tokens: dict[str, str] = {}
        values: dict[str, Any] = {}
        for name in (SPECIAL_TOKENS_MAP, CONFIG):  # the second counts
            if (folder / name).is_file():
                values = read_object(folder / name)
                tokens |= _tokens(folder / name, values)
        has_config = (folder / CONFIG).is_file()
        return cls(folder / CONFIG, values if has_config else {}, tokens)

    def check_class(self, known: Collection[str]) -> None:
        """Refuses files that another class of transformers reads in another way.

        Args:
            known: beginnings of the names of those that read them so.

        Raises:
            ArtifactError: it is said to be another one.
        """
        kind = self.values.get("tokenizer_class")
        if kind is None:
            return
        if not isinstance(kind, str) or not kind.startswith((*_GENERAL, *known)):
            raise ArtifactError(
                f"{self.path}: needs another tokenizer. Received: tokenizer_class={kind!r}"
            )

    def flag(self, key: str, default: bool) -> bool:
        """A value that is true or false; `default` where it is null or not said.

        Raises:
            ArtifactError: it is something else.
        """
        value = self.values.get(key)
        return default if value is None else bool(flags(self.path, self.values, {key: key})[key])

    def switches(self) -> dict[str, bool | None]:
        """The arguments of WordPiece that it says."""
        return flags(self.path, self.values, SWITCHES)


def flags(path: Path, values: Mapping[str, Any], keys: Mapping[str, str]) -> dict[str, bool | None]:
    """The values under these keys, by our names; `strip_accents` may be null.

    Raises:
        ArtifactError: one is neither true nor false.
    """
    found = {name: values[key] for name, key in keys.items() if key in values}
    for name, value in found.items():
        if not isinstance(value, bool) and not (value is None and name == "strip_accents"):
            raise ArtifactError(f"{path}: {keys[name]} must be true or false. Received: {value!r}")
    return found


def _tokens(path: Path, values: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for role in ROLES:
        token = values.get(f"{role}_token")
        token = token.get("content") if isinstance(token, dict) else token
        if token is not None and not isinstance(token, str):
            raise ArtifactError(f"{path}: {role}_token must be a text. Received: {token!r}")
        if token is not None:
            found[role] = token
    return found
