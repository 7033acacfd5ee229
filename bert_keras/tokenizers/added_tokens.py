"""Tokens that were added to a trained vocabulary, matched in a text before the model splits words.

The rules are those of the `tokenizers` library, so ids equal those of transformers' fast
tokenizers. At each place of a text the longest added token wins, also in the middle of a word. The
model tokenizes the text around it. A token with `normalized` is compared after normalisation: an
uncased tokenizer finds "COVID-19" in "covid-19". The others must be in the text as they are
written.
"""

# A caller without a type checker may pass anything: arguments are checked when it runs.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers as hf

from bert_keras.errors import COPY_AGAIN, ArtifactError
from bert_keras.file_io import is_object, read_object

NO_TEXT = "\U0010ffff"  # a code point that is no character, so it occurs in no text
_FLAGS = ("special", "normalized", "lstrip", "rstrip", "single_word")


class AddedToken(NamedTuple):
    """A token that was added to a vocabulary, with the options of the `tokenizers` library.

    Attributes:
        content: the token.
        id: its id; below the number of the model's pieces if the token is one of them.
        special: True for a token like [MASK]. Where special tokens in a text are ordinary text,
            such as in a corpus, this token is too.
        normalized: True to compare it with the normalised text; both are normalised alike.
        lstrip: True to include the white space before it.
        rstrip: True to include the white space after it.
        single_word: True to match whole words only.
    """

    content: str
    id: int
    special: bool = False
    normalized: bool = True
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False

    @classmethod
    def of(cls, values: Any, place: str) -> AddedToken:
        """Read a token from an item of `added_tokens` in a tokenizer.json.

        Args:
            values: parsed item.
            place: path of the file, for the message.

        Raises:
            ArtifactError: if the item has another form.
        """
        values = values if is_object(values) else {}
        content, index = values.get("content"), values.get("id")
        special = values.get("special", False)
        flags = {name: values.get(name, False) for name in _FLAGS}
        flags["normalized"] = values.get("normalized", not special)
        is_good = all(isinstance(flag, bool) for flag in flags.values())
        if not isinstance(content, str) or not content or type(index) is not int or not is_good:
            raise ArtifactError(
                f"{place}: an added token must have content, id and flags. "
                f"Received: {values!r:.200}. {COPY_AGAIN}"
            )
        return cls(content, index, **flags)

    @property
    def flags(self) -> dict[str, bool]:
        """The options by name."""
        return {name: getattr(self, name) for name in _FLAGS}

    @property
    def json(self) -> dict[str, Any]:
        """The token as an item of `added_tokens` in a tokenizer.json."""
        return {"id": self.id, "content": self.content, **self.flags}


def extended(
    added: Iterable[AddedToken],
    ids: Mapping[str, int],
    tokens: Sequence[str],
    *,
    special: bool,
    protected: Collection[str],
) -> tuple[AddedToken, ...]:
    """Return the added tokens of a tokenizer together with new ones, ordered by id.

    A token that has an id keeps it, and is matched as an added token from now on. The others get
    the next ids in their order.

    Args:
        added: tokens that were added before.
        ids: id of every entry, added ones included.
        tokens: new tokens.
        special: see `AddedToken`. A special token is not normalised.
        protected: special tokens of the tokenizer, which stay as they are.

    Raises:
        TypeError: if `tokens` is one string, or a token is not a string.
        ValueError: if a token is empty or has a lone surrogate.
    """
    if isinstance(tokens, str):
        raise TypeError(
            f"`tokens` must be a list of strings. Received: one string, {tokens!r:.80}. Put it "
            "into a list."
        )
    by_id = {token.id: token for token in added}
    size = len(ids)
    new: dict[str, int] = {}
    for index, token in enumerate(tokens):
        if not isinstance(token, str):
            raise TypeError(
                f"`tokens`[{index}]: a token must be a string. Received: {token!r:.200}"
            )
        if not token or any("\ud800" <= character <= "\udfff" for character in token):
            raise ValueError(
                f"`tokens`[{index}]: a token must have characters, and no lone surrogate. "
                f"Received: {token!r:.200}. Leave it out."
            )
        if token in protected:
            continue
        place = ids.get(token, new.get(token))
        if place is None:
            place = new[token] = size + len(new)
        by_id[place] = AddedToken(token, place, special=special, normalized=not special)
    return tuple(by_id[place] for place in sorted(by_id))


def check_ids(added: Sequence[AddedToken], pieces: Sequence[str], path: Path) -> bool:
    """Check that added tokens are pieces of the model or follow them; return whether there are any.

    Args:
        added: tokens, ordered by id.
        pieces: pieces of the model; the position is the id.
        path: file that states the tokens, for the message.

    Raises:
        ArtifactError: if an id is missing, occurs twice, or belongs to another piece.
    """
    known = [token for token in added if token.id < len(pieces)]
    new = added[len(known) :]
    is_good = all(token.id >= 0 and pieces[token.id] == token.content for token in known)
    contents = {token.content for token in new}
    is_good = is_good and [token.id for token in new] == [
        *range(len(pieces), len(pieces) + len(new))
    ]
    if not is_good or len(contents) < len(new) or contents.intersection(pieces if new else ()):
        raise ArtifactError(
            f"{path}: the ids of added tokens must follow those of the {len(pieces)} pieces, each "
            f"once. Received: {[(t.content, t.id) for t in added][:5]!r:.300}. {COPY_AGAIN}"
        )
    return bool(added)


def add_to(engine: hf.Tokenizer, added: Iterable[AddedToken], *, hide_special: bool) -> None:
    """Add tokens to a tokenizer of the `tokenizers` library, in the order of their ids.

    Args:
        engine: tokenizer, changed in place.
        added: tokens, ordered by id.
        hide_special: True to treat special tokens in a text as ordinary text. A name that occurs
            in no text takes the place of a special token, so that all ids stay.
    """
    for token in added:
        content, flags = token.content, token.flags
        if token.special and hide_special:
            if engine.token_to_id(content) is not None:
                continue  # a piece of the model, which is ordinary text
            content, flags = f"{NO_TEXT} {content}", {**flags, "normalized": False}
        entry = [hf.AddedToken(content, **flags)]
        if token.special:
            engine.add_special_tokens(entry)  # pyright: ignore[reportUnknownMemberType]
        else:
            engine.add_tokens(entry)  # pyright: ignore[reportUnknownMemberType]


# === Files of a folder without tokenizer.json ===


ADDED_TOKENS = "added_tokens.json"  # of transformers before 4.34, and of its slow tokenizers
# Keys with further special tokens. A tokenizer.json has them among its added tokens.
MORE_TOKENS = ("additional_special_tokens", "extra_special_tokens")


def more_tokens(path: Path, values: Mapping[str, Any]) -> list[str]:
    """Return the further special tokens that a file states, in order."""
    tokens: list[str] = []
    for key in MORE_TOKENS:
        items: Any = values.get(key) or []
        tokens_of_key: list[Any] = [*(items.values() if is_object(items) else items)]
        for item in tokens_of_key:
            token: Any = item.get("content") if is_object(item) else item
            if not isinstance(token, str) or not token:
                raise ArtifactError(
                    f"{path}: {key} must be a list of texts. Received: {item!r:.100}"
                )
            tokens.append(token)
    return tokens


def read_added_tokens(
    folder: Path, config: Path, values: Mapping[str, Any], special: Collection[str]
) -> dict[int, AddedToken]:
    """Return id -> added token, of tokenizer_config.json and of added_tokens.json.

    Args:
        folder: folder of the tokenizer.
        config: path of tokenizer_config.json, for messages.
        values: parsed tokenizer_config.json.
        special: tokens of added_tokens.json that are special.

    Raises:
        ArtifactError: if a token or an id has another form.
    """
    added: dict[int, AddedToken] = {}
    if (path := folder / ADDED_TOKENS).is_file():
        for content, index in read_object(path).items():
            item = {"content": content, "id": index, "special": content in special}
            added[index] = AddedToken.of(item, str(path))
    decoder = values.get("added_tokens_decoder")
    for key, item in (decoder if is_object(decoder) else {}).items():
        if not key.isdecimal() or not is_object(item):
            raise ArtifactError(
                f"{config}: added_tokens_decoder must have ids as keys and tokens as "
                f"values. Received: {key!r:.100}: {item!r:.100}"
            )
        added[int(key)] = AddedToken.of({**item, "id": int(key)}, str(config))
    return added
