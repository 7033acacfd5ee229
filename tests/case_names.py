"""Names of the cases of a test that are the same in every process, as `pytest -n` needs them."""

from __future__ import annotations

import re


def case_name(value: object) -> str:
    """Return a value as text, without addresses of memory."""
    return re.sub(r" at 0x\w+", "", str(value))
