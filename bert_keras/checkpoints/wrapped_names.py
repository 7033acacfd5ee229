"""Prefixes that other programs put before tensor names, such as "module." of `DataParallel`."""

from __future__ import annotations

import re
from collections.abc import Collection

from bert_keras.checkpoints.tensors import RenamedTensors, Tensors

# Parts of names that wrappers of PyTorch insert at any place: `torch.compile`, fully sharded data
# parallel training, and activation checkpointing.
_INSERTED = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
# Counter that `torch.optim.swa_utils.AveragedModel` stores beside the averaged weights.
COUNTER = "n_averaged"


def unwrapped(
    source: Tensors, table: str, prefixes: Collection[str], separator: str = "."
) -> Tensors:
    """Return the tensors without a prefix that all names share, or the same object.

    The name of the token table shows where the prefix ends. No value is copied.

    Args:
        source: opened tensors.
        table: name of the token table in this format, without a prefix.
        prefixes: prefixes that the format itself puts before this name, such as "bert.".
        separator: text between the parts of a name.
    """
    inserted = re.compile("|".join(re.escape(name + separator) for name in _INSERTED))

    def without_inserted(name: str) -> str:
        """Remove what wrappers inserted."""
        return inserted.sub("", name)

    inner = [without_inserted(name) for name in source.shapes if name != COUNTER]
    prefix = _shared_prefix(inner, table, prefixes, separator)
    parts = sorted({match for name in source.shapes for match in inserted.findall(name)})
    if not prefix and not parts:
        return source
    notes = [f"all tensor names begin with {prefix!r}"] * bool(prefix)
    notes += [f"tensor names have {part!r} in them" for part in parts]
    note = f"{source.path}: {', and '.join(notes)}, which is left out."
    return RenamedTensors(source, lambda name: without_inserted(name).removeprefix(prefix), note)


def _shared_prefix(
    names: Collection[str], table: str, prefixes: Collection[str], separator: str
) -> str:
    """Return the prefix to remove; "" if there is none that all names share."""
    for name in names:
        if name != table and not name.endswith(separator + table):
            continue
        before = name.removesuffix(table)
        own = max((p for p in ("", *prefixes) if before.endswith(p)), key=len)
        wrapper = before.removesuffix(own)
        if wrapper and all(other.startswith(wrapper) for other in names):
            return wrapper
    return ""
