"""Settings beside a vocabulary: tokenizer_config.json and special_tokens_map.json."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from bert_keras.errors import ArtifactError
from bert_keras.file_io import is_object, read_object, warn_of_unknown_keys
from bert_keras.tokenizers.added_tokens import (
    MORE_TOKENS,
    AddedToken,
    check_ids,
    extended,
    more_tokens,
    read_added_tokens,
)
from bert_keras.tokenizers.encoding import ROLES, Scheme
from bert_keras.tokenizers.tokenizer_families import (
    FAMILIES,
    GENERAL,
    KNOWN_CLASSES,
    REFUSED,
    Family,
    families_with,
    family_name,
)

CONFIG = "tokenizer_config.json"
SPECIAL_TOKENS_MAP = "special_tokens_map.json"
# Our switch -> its key in tokenizer_config.json.
SWITCHES = {
    "lowercase": "do_lower_case",
    "strip_accents": "strip_accents",
    "split_cjk": "tokenize_chinese_chars",
}
# The config of the model. Older folders state the class of their tokenizer there.
MODEL_CONFIG = "config.json"

_ORIGIN = "origin of the file: program, source files and library"
_CALLER = "default of a call; lengths and padding are arguments here"
_DECODING = "conversion of ids to text"
_MODEL = "inputs of the model; its config states them"
# Key of tokenizer_config.json or special_tokens_map.json -> reason why it does not change the ids.
IRRELEVANT: Mapping[str, str] = {
    **dict.fromkeys(("backend", "is_local", "use_fast", "from_slow", "legacy"), _ORIGIN),
    **dict.fromkeys(("name_or_path", "tokenizer_file", "vocab_file", "merges_file"), _ORIGIN),
    **dict.fromkeys(("vocab_type", "unk_id", "full_tokenizer_file"), _ORIGIN),
    **dict.fromkeys(("special_tokens_map_file", "processor_class", "init_inputs"), _ORIGIN),
    **dict.fromkeys(("local_files_only", "files_loaded", "verbose", "slow_class"), _ORIGIN),
    **dict.fromkeys(("model_max_length", "max_length", "max_len", "stride"), _CALLER),
    **dict.fromkeys(("padding_side", "pad_token_type_id", "pad_to_multiple_of"), _CALLER),
    **dict.fromkeys(("truncation_strategy", "return_token_type_ids"), _CALLER),
    **dict.fromkeys(("clean_up_tokenization_spaces", "errors", "chat_template"), _DECODING),
    "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output": _DECODING,
    **dict.fromkeys(("response_template", "response_schema", "chat_control_tokens"), _DECODING),
    "trim_offsets": "offsets of the pieces; here they never include white space",
    "model_input_names": _MODEL,
}
# Key -> values that do not change the ids. Any other value is refused.
REQUIRED: Mapping[str, tuple[Any, ...]] = {
    "do_basic_tokenize": (None, True),
    "never_split": (None, []),
    "split_special_tokens": (None, False),
    "truncation_side": (None, "right"),
    "sp_model_kwargs": (None, {}),
    "remove_space": (None, True),
    "add_bos_token": (None, True),
    "add_eos_token": (None, True),
    "model_specific_special_tokens": (None, {}),
}
_HONOURED = (
    *SWITCHES.values(),
    *("tokenizer_class", "auto_map", "added_tokens_decoder", "add_prefix_space", "keep_accents"),
    "split_by_punct",
    *(f"{role}_token" for role in (*ROLES, "bos", "eos")),
    *MORE_TOKENS,
)
KNOWN_KEYS = frozenset((*_HONOURED, *IRRELEVANT, *REQUIRED))


@dataclasses.dataclass(frozen=True)
class TokenizerConfig:
    """Content of tokenizer_config.json and special_tokens_map.json.

    Attributes:
        path: path of tokenizer_config.json, for messages.
        values: parsed tokenizer_config.json; {} if there is none.
        tokens: role -> special token, for the roles that the files state.
        added: id -> added token, from tokenizer_config.json and added_tokens.json.
        more: further special tokens, which may have no id yet.
        family: family of the tokenizer, by its class or by the model; None if it is not known.
        mask_takes_space: whether the mask token includes the space before it, if the files say so.
    """

    path: Path
    values: Mapping[str, Any]
    tokens: Mapping[str, str]
    added: Mapping[int, AddedToken] = dataclasses.field(default_factory=dict[int, AddedToken])
    more: tuple[str, ...] = ()
    family: str | None = None
    mask_takes_space: bool | None = None

    @classmethod
    def read(cls, folder: Path) -> TokenizerConfig:
        """Read the files of a folder, which may both be missing.

        Raises:
            ArtifactError: if a file is damaged, or a special token is not a string.
        """
        tokens: dict[str, str] = {}
        values: dict[str, Any] = {}
        more: dict[str, None] = {}  # in order
        mask_takes_space: bool | None = None
        for name in (SPECIAL_TOKENS_MAP, CONFIG):  # the second file takes precedence
            if (folder / name).is_file():
                values = read_object(folder / name)
                tokens |= _tokens(folder / name, values)
                _check_keys(folder / name, values)
                more |= dict.fromkeys(more_tokens(folder / name, values))
                mask: Any = values.get("mask_token")
                if is_object(mask) and isinstance(mask.get("lstrip"), bool):
                    mask_takes_space = mask["lstrip"]
        has_config = (folder / CONFIG).is_file()
        values = values if has_config else {}
        model_config = folder / MODEL_CONFIG
        model = read_object(model_config) if model_config.is_file() else {}
        if values.get("tokenizer_class") is None and model:
            values = {**values, "tokenizer_class": model.get("tokenizer_class")}
        added = read_added_tokens(folder, folder / CONFIG, values, more)
        family = family_name(values.get("tokenizer_class"), model.get("model_type"))
        return cls(folder / CONFIG, values, tokens, added, tuple(more), family, mask_takes_space)

    def takes_space(self, family: Family) -> bool:
        """Return whether the mask token includes the space before it: the files, or the family."""
        said = self.mask_takes_space
        return family.mask_takes_space if said is None else said

    def added_tokens(
        self, vocabulary: Sequence[str], protected: Collection[str]
    ) -> tuple[AddedToken, ...]:
        """Return the added tokens of a folder without tokenizer.json, ordered by id.

        Args:
            vocabulary: pieces of the model; the position is the id.
            protected: special tokens of the tokenizer, which are no added tokens.

        Raises:
            ArtifactError: if the ids do not follow those of the vocabulary.
        """
        added = [token for token in self.added.values() if token.content not in protected]
        added.sort(key=lambda token: token.id)
        for token in self.added.values():
            known = vocabulary[token.id : token.id + 1]
            if token.content in protected and [*known] != [token.content]:
                raise ArtifactError(
                    f"{self.path.parent}: the settings state {token.id} as the id of "
                    f"{token.content}, but the vocabulary has {[*known] or 'no entry'} there. Take "
                    "all files from one tokenizer."
                )
        if not check_ids(added, vocabulary, self.path) and not self.more:
            return ()
        ids = {token: index for index, token in enumerate(vocabulary)}
        ids |= {token.content: token.id for token in added}
        return extended(added, ids, self.more, special=True, protected=protected)

    def check_added(self, known: Collection[str]) -> None:
        """Refuse settings that state added tokens which the tokenizer.json lacks.

        Args:
            known: all entries of the tokenizer.json.

        Raises:
            ArtifactError: if there are such tokens.
        """
        stated = [*(token.content for token in self.added.values()), *self.more]
        if lacking := [token for token in stated if token not in known]:
            raise ArtifactError(
                f"{self.path}: states added tokens that the tokenizer.json lacks. Received: "
                f"{lacking[:5]}. Save the tokenizer again with a fast class of transformers."
            )

    def warn_of_class(self) -> None:
        """Warn of an unknown tokenizer class, and of code in the folder, which is not run."""
        kind = self.values.get("tokenizer_class")
        is_known = kind in KNOWN_CLASSES or (kind is None and self.family is not None)
        if kind is not None and not is_known:
            warnings.warn(
                f"{self.path}: tokenizer_class={kind!r:.100} is not known. The files are read "
                "without it; compare the ids with those of that class.",
                stacklevel=2,
            )
        if self.values.get("auto_map") and not is_known:
            warnings.warn(
                f"{self.path}: auto_map names code of the checkpoint's own, which is never run. "
                "Compare the ids.",
                stacklevel=2,
            )

    def check_supported(self) -> None:
        """Refuse a family whose tokenizer has a step that the files do not have.

        Raises:
            ArtifactError: if the folder is of such a family.
        """
        name = self.family or ""
        if name in REFUSED:
            raise ArtifactError(
                f"{self.path.parent}: needs another tokenizer: {name}Tokenizer {REFUSED[name]}, "
                "which is not supported here. Tokenize with that class of transformers, and give "
                "the model its ids."
            )

    def family_of(self, file: str) -> Family:
        """Return the values of the family that reads a vocabulary file of this name.

        A family of other files, or one that is not known, is read like the usual one.
        """
        families = families_with(file)
        name = self.family if self.family in families else families[0]
        return FAMILIES[name or families[0]]

    @property
    def scheme(self) -> Scheme | None:
        """Special tokens of the folder's family; None if it is not known."""
        family = FAMILIES.get(self.family or "")
        return family and family.scheme

    def check_class(self, known: Collection[str]) -> None:
        """Refuse files of a tokenizer class that reads them differently.

        Args:
            known: name prefixes of the classes that read them as they are read here.

        Raises:
            ArtifactError: if the folder states another class.
        """
        kind = self.values.get("tokenizer_class")
        if kind is None:
            return
        if not isinstance(kind, str) or not kind.startswith((*GENERAL, *known)):
            raise ArtifactError(
                f"{self.path}: needs another tokenizer. Received: tokenizer_class={kind!r:.100}. "
                "Save it with a fast class of transformers, which writes a tokenizer.json."
            )

    def flag(self, key: str, default: bool) -> bool:
        """Return the boolean under a key, or `default` if it is null or missing.

        Raises:
            ArtifactError: if it is another value.
        """
        value = self.values.get(key)
        return default if value is None else bool(flags(self.path, self.values, {key: key})[key])

    def switches(self) -> dict[str, bool | None]:
        """Return the stated switches of WordPiece: `lowercase`, `strip_accents`, `split_cjk`."""
        return flags(self.path, self.values, SWITCHES)


def _check_keys(path: Path, values: Mapping[str, Any]) -> None:
    """Refuse settings of a file that change the ids and are not supported; warn of unknown keys.

    Raises:
        ArtifactError: if there is such a setting.
    """
    for key, accepted in REQUIRED.items():
        if values.get(key) not in accepted:
            supported = ", ".join(repr(value) for value in accepted if value is not None)
            raise ArtifactError(
                f"{path}: not supported: {key}={values[key]!r:.100}, which changes the ids. "
                f"Supported: {supported}"
            )
    for key in MORE_TOKENS:
        if not isinstance(values.get(key) or [], list | dict):
            raise ArtifactError(f"{path}: {key} must be a list. Received: {values[key]!r:.100}")
    warn_of_unknown_keys(path, values, KNOWN_KEYS)


def flags(path: Path, values: Mapping[str, Any], keys: Mapping[str, str]) -> dict[str, bool | None]:
    """Read boolean settings. `strip_accents` may also be null.

    Args:
        path: path of the file, for messages.
        values: parsed file.
        keys: our name of a setting -> its key in the file.

    Returns:
        Our name -> value, for the keys that the file has.

    Raises:
        ArtifactError: if a value is neither true nor false.
    """
    settings = {name: values[key] for name, key in keys.items() if key in values}
    for name, value in settings.items():
        if not isinstance(value, bool) and not (value is None and name == "strip_accents"):
            raise ArtifactError(f"{path}: {keys[name]} must be true or false. Received: {value!r}")
    return settings


def _tokens(path: Path, values: Mapping[str, Any]) -> dict[str, str]:
    """Return role -> special token, for the roles that a file states."""
    tokens: dict[str, str] = {}
    for role in ROLES:
        token = values.get(f"{role}_token")
        token = token.get("content") if is_object(token) else token
        if token is not None and not isinstance(token, str):
            raise ArtifactError(f"{path}: {role}_token must be a text. Received: {token!r}")
        if token is not None:
            tokens[role] = token
    return tokens
