"""Names of test cases that are equal in every process, as `pytest -n` requires."""

from __future__ import annotations

import re


def case_name(value: object) -> str:
    """Return a value as text, without memory addresses."""
    return re.sub(r" at 0x\w+", "", str(value))
