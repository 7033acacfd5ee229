"""`bert_keras.training.machine` without `bert_keras`: for processes that measure other libraries.

`import bert_keras` registers our layers as soon as Keras is imported. In the process of a peer, or
of an earlier commit, that would be measured too. So the file is loaded by its path.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType


def _load() -> ModuleType:
    path = Path(__file__).parents[1] / "bert_keras" / "training" / "machine.py"
    spec = importlib.util.spec_from_file_location("benchmarks_machine", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


machine = _load()
