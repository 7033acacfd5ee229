"""Write the page `docs/licences.md`: the licences of all requirements.

    python docs/licence_table.py

The licences come from the metadata of the installed packages. Install every extra first.
"""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "licences.md"
# Extras for work on this package. Users do not install them.
OURS = ("dev", "docs", "reference")

# Names of licences in older metadata -> SPDX. `License-Expression` has SPDX already.
_SPDX = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache": "Apache-2.0",
    "Apache 2": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache 2.0 License": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache License v2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "Apache Software License 2.0": "Apache-2.0",
    "Apache license 2.0": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "BSD-3": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "PSF": "PSF-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "The Unlicense (Unlicense)": "Unlicense",
    "new BSD": "BSD-3-Clause",
}
# Packages whose metadata name no licence: what their repositories say.
_NOT_IN_METADATA = {"grain": "Apache-2.0", "namex": "Apache-2.0"}
_HEAD = """# Licences of the requirements

bert_keras itself has the licence Apache-2.0. The packages below are installed beside it, and each
keeps its own licence. PyTorch, JAX and TensorFlow for NVIDIA GPUs also install NVIDIA's libraries,
which have a licence of NVIDIA's.

`python docs/licence_table.py` writes this page from the metadata of the installed packages.
"""


def name_of(requirement: str) -> str:
    """Return the name of the package that a requirement names, as PyPI compares names."""
    return re.sub(r"[-_.]+", "-", re.findall(r"^[\w.-]+", requirement)[0]).lower()


def direct_requirements() -> dict[str, list[str]]:
    """Return package -> extras that require it; the extra "" is the package itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups: dict[str, list[str]] = {"": project["dependencies"]}
    groups |= project["optional-dependencies"]
    extras: dict[str, list[str]] = {}
    for extra, lines in groups.items():
        for name in sorted({name_of(line) for line in lines} - {"bert-keras"}):
            extras.setdefault(name, []).append(extra)
    return extras


def licence_of(name: str) -> str | None:
    """Return the licence of an installed package as an SPDX expression; None if not installed."""
    try:
        metadata: Any = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    if expression := metadata.get("License-Expression"):
        return expression
    classifiers = [line for line in metadata.get_all("Classifier", []) if line[:9] == "License :"]
    names = [line.rpartition(" :: ")[2] for line in classifiers]
    names = [line for line in names if line != "OSI Approved"]
    text = (metadata.get("License") or "").strip()
    # The field may hold the whole text of the licence.
    if not names or (text in _SPDX and len(names) == 1) or re.fullmatch(r"[\w.-]*\d[\w.-]*", text):
        names = [text.splitlines()[0].strip()] if text and len(text) < 60 else names
    names = [line.removeprefix("OSI Approved :: ") for line in names]
    licence = " AND ".join(sorted({_SPDX.get(line, line) for line in names}))
    return licence or _NOT_IN_METADATA.get(name, "not stated")


def brought_in(names: set[str]) -> set[str]:
    """Return the installed packages that packages require, and those that these require."""
    found: set[str] = set()
    new = set(names)
    while new:
        lines: list[str] = []
        for name in new:
            try:
                lines += importlib.metadata.requires(name) or []
            except importlib.metadata.PackageNotFoundError:
                continue
        required = {name_of(line) for line in lines if "extra ==" not in line}
        new = {name for name in required - found if licence_of(name) is not None}
        found |= new
    return found


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a Markdown table."""
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def page() -> str:
    """Return the page.

    Raises:
        SystemExit: if a direct requirement is not installed.
    """
    direct = direct_requirements()
    licences = {name: licence_of(name) for name in direct}
    if missing := [name for name, licence in licences.items() if licence is None]:
        raise SystemExit(f"Not installed: {', '.join(missing)}. Install every extra first.")
    users = {name: extras for name, extras in direct.items() if set(extras) - set(OURS)}
    ours = {name: extras for name, extras in direct.items() if name not in users}

    def rows(packages: dict[str, list[str]]) -> list[tuple[str, ...]]:
        """Return the rows of a table of direct requirements."""
        needed = {
            name: ", ".join(f"`{extra}`" if extra else "always" for extra in extras)
            for name, extras in packages.items()
        }
        return [(name, str(licences[name]), needed[name]) for name in sorted(packages)]

    others = sorted(brought_in(set(users)) - set(direct))
    heads = ("package", "licence", "needed")
    return "\n".join(
        [
            _HEAD,
            "## Packages that users install\n",
            _table((*heads[:2], "needed by extra"), rows(users)),
            "## Packages for work on bert_keras\n",
            _table((*heads[:2], "needed by extra"), rows(ours)),
            "## Packages that the first table brings in\n",
            "They are those of one installation on Linux, and change with the versions.\n",
            _table(heads[:2], [(name, str(licence_of(name))) for name in others]),
        ]
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
