"""The plan of the house, held by reading the sources: who may import whom, sizes, names, paths."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
LIBRARY = "bert_keras"
PROGRAMS = ("training", "benchmarks", "examples")
TRAINING = "bert_keras.training"


class Floor(NamedTuple):
    """Imports that a module or folder may have.

    Args:
        floors: of the library; each floor may also import itself and those of `GROUND`.
        third_party: when it is imported.
        lazily: floors and third-party packages that a function may import when it is called.
        hints: floors whose classes type hints may name; nothing of them is imported when it runs.
    """

    floors: tuple[str, ...] = ()
    third_party: tuple[str, ...] = ()
    lazily: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()


# Every floor may import these.
GROUND = ("earlier_names", "errors", "escaping", "features", "file_io", "hooks")
FLOORS = {
    "hooks": Floor(),
    "errors": Floor(),
    "escaping": Floor((), (), ("rich",)),
    "file_io": Floor(),
    "earlier_names": Floor(),
    "config_checks": Floor(),
    "config": Floor(("config_checks",)),
    "task_names": Floor(),
    "saved_model_loading": Floor((), (), ("tensorflow",)),
    "features": Floor(),
    "published_models": Floor(("config",)),
    "presets": Floor(("published_models",), (), ("huggingface_hub",)),
    "kernels": Floor((), ("keras",)),
    "layers": Floor(
        ("kernels", "saved_model_loading"), ("keras", "numpy"), ("tensorflow", "tensorflow_text")
    ),
    "losses": Floor((), ("keras",)),
    "optimization": Floor((), ("keras",), ("tensorflow", "torch")),
    "metrics": Floor((), ("numpy",), ("scipy", "sklearn")),
    "retrieval": Floor((), ("numpy",), ("usearch",)),
    "inference": Floor(("data", "metrics", "retrieval", "tokenizers"), ("keras", "numpy")),
    "tokenizers": Floor(("presets",), ("numpy", "tokenizers"), ("sentencepiece",)),
    "data": Floor(
        ("tokenizers",), ("numpy", "sentencex"), ("keras", "pyarrow", "spacy", "tensorflow")
    ),
    "checkpoints": Floor(
        (
            *("config", "config_checks", "data", "inference", "kernels", "layers"),
            *("presets", "task_names", "tokenizers"),
        ),
        ("keras", "numpy", "safetensors"),
        ("h5py", "huggingface_hub", "keras_hub", "tensorflow", "torch", "yaml"),
        hints=("models",),
    ),
    "models": Floor(
        (
            *("checkpoints", "config", "config_checks", "data", "inference"),
            *("kernels", "layers", "losses", "optimization", "presets", "saved_model_loading"),
            *("task_names", "tokenizers"),
        ),
        ("keras", "numpy"),
        ("grain", "sklearn", "tensorflow", "torch"),
    ),
    "loading": Floor(("checkpoints", "models", "presets")),
    "checkpoint_report": Floor(
        ("checkpoints", "loading", "models", "tokenizers"), ("keras", "numpy", "rich")
    ),
    "resume": Floor((), ("keras", "numpy", "safetensors")),
}
FLOORS["registration"] = Floor((), (), ("export", "layers", "models", "optimization"))
FLOORS["predictor"] = Floor(tuple(FLOORS), ("keras", "numpy"), ("tensorflow", "torch"))
FLOORS["export"] = Floor(
    tuple(FLOORS),
    ("keras", "numpy"),
    ("jax", "nncf", "onnxruntime", "tensorflow", "tensorflow_text", "tf2onnx", "torch"),
)
FLOORS["serving"] = Floor(
    tuple(FLOORS),
    ("keras", "numpy", "orjson", "prometheus_client", "starlette", "uvicorn"),
    ("tensorflow",),
)
FLOORS["sklearn"] = Floor(tuple(FLOORS), ("keras", "numpy", "sklearn"))
FLOORS["visualize"] = Floor(
    tuple(FLOORS),
    ("keras", "numpy"),
    ("jax", "matplotlib", "sklearn", "tensorflow", "torch"),
)
FLOORS["cli_measure"] = Floor((), ("typer",), (*FLOORS, "keras", "rich"))
FLOORS["cli_export"] = Floor(("cli_measure",), ("typer",), (*FLOORS, "keras", "rich"))
FLOORS["cli_serve"] = Floor((), ("typer",), tuple(FLOORS))
FLOORS["cli_visualize"] = Floor((), ("typer",), tuple(FLOORS))
FLOORS["__main__"] = Floor(("cli",))
FLOORS["training"] = Floor()  # whose rules are those of PROGRAM
FLOORS["cli"] = Floor(
    ("cli_export", "cli_serve", "cli_visualize", "presets", "tokenizers"),
    ("typer",),
    (*FLOORS, "rich"),
)
# These are of a framework from their first line. The others import them inside functions only.
_TENSORFLOW = ("tensorflow", "tensorflow_text")
GRAPHS = {
    **dict.fromkeys(
        (
            *("export.graph", "export.runtimes.litert"),
            *(
                f"tokenizers.tf_{part}"
                for part in (
                    *("added_tokens", "basic_tokenizer", "bpe", "characters", "normalizers"),
                    *("subwords", "tables", "tokenizer", "unigram", "wordpiece"),
                )
            ),
        ),
        _TENSORFLOW,
    ),
    "export.runtimes.torch_export": ("torch",),
    "kernels.tensorflow_kernels": _TENSORFLOW,
    "kernels.torch_kernels": ("torch",),
    **dict.fromkeys(("kernels.jax_kernels", "kernels.jax_recomputation"), ("jax",)),
    "export.runtimes.onnx_model": ("onnx",),
    "export.runtimes.openvino_model": ("openvino",),
}
# This module imports the modules of GRAPHS that the active backend has, and no other.
CHOOSES_GRAPHS = f"{LIBRARY}.kernels"
# The public module imports all floors, each at its first use.
PAGE = Floor(lazily=tuple(FLOORS))
PROGRAM = Floor(
    third_party=("keras", "numpy", "rich"),
    lazily=("matplotlib", "tensorboard", "tensorflow", "tensorflow_text"),
)
PEERS = (  # libraries that benchmarks run
    *("datasets", "jax", "keras_hub", "onnxruntime", "sentence_transformers", "sentencex"),
    *("setfit", "starlette", "tensorflow", "tensorflow_text", "tokenizers", "torch"),
    *("transformers", "uvicorn"),
)

MOST_LINES, MOST_LINES_OF_TESTS_AND_TABLES = 400, 500
TABLES = ("bert_keras/checkpoints/hugging_face_names.py",)

# Importing the library loads none of these, but for what its Keras backend loads by itself.
HEAVY = (
    *("jax", "keras", "keras_hub", "matplotlib", "tensorflow", "tensorflow_text", "torch"),
    *("huggingface_hub", "rich", "scipy", "sklearn", "transformers"),
)


class Import(NamedTuple):
    """One imported module or member, where, and when."""

    target: str
    line: int
    lazy: bool  # inside a function
    typing: bool  # under TYPE_CHECKING


def imports(source: str) -> list[Import]:
    """Every import of a source, as dotted names; `from a import b` is "a.b"."""
    found: list[Import] = []

    def visit(node: ast.AST, lazy: bool, typing: bool) -> None:
        if isinstance(node, ast.Import):
            found.extend(Import(alias.name, node.lineno, lazy, typing) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            names = [f"{base}.{alias.name}" for alias in node.names]
            found.extend(Import(name, node.lineno, lazy, typing) for name in names)
        lazy = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        body: list[ast.stmt] = []
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            body = node.body
        for child in ast.iter_child_nodes(node):
            visit(child, lazy, typing or child in body)

    visit(ast.parse(source), lazy=False, typing=False)
    return found


def floor_of(module: str) -> tuple[str, Floor]:
    """The name and the rules of the floor, or the folder of programs, that a module is of."""
    folder, *names = module.split(".")
    if folder == "examples" and names[:1] == ["compare_sst2"]:
        return folder, PROGRAM._replace(lazily=("keras_hub", "sklearn"))
    if folder == "examples":
        lazily = ("onnxruntime", "pandas", "tokenizers", *PROGRAM.lazily)
        return folder, PROGRAM._replace(lazily=lazily)
    if folder == "benchmarks":
        return folder, PROGRAM._replace(third_party=(*PROGRAM.third_party, *PEERS))
    if folder in PROGRAMS or module.startswith(TRAINING):
        return (names[0] if module.startswith(TRAINING) else folder), PROGRAM
    if not names:
        return "the page", PAGE
    assert names[0] in FLOORS, f"{module}: a new floor; give it a row in FLOORS and in DESIGN"
    floor = FLOORS[names[0]]
    if framework := _framework(module):
        floor = floor._replace(third_party=(*floor.third_party, *framework))
    return names[0], floor


def _framework(target: str) -> tuple[str, ...]:
    """Return the frameworks of a module of GRAPHS, or of a member of one; else nothing."""
    for module, libraries in GRAPHS.items():
        if f"{target}.".startswith(f"{LIBRARY}.{module}."):
            return libraries
    return ()


def violations(module: str, source: str) -> list[str]:
    """List the imports that a module may not have, as "line: who may not import what"."""
    name, floor = floor_of(module)
    found = []
    for item in imports(source):
        top, *rest = item.target.split(".")
        late = floor.lazily if item.lazy or item.typing else ()
        late = (*late, *floor.hints) if item.typing else late
        is_program = name == "training" and f"{item.target}.".startswith(f"{TRAINING}.")
        if is_program or (name == "benchmarks" and top == LIBRARY):  # which they measure
            allowed = True
        elif top == LIBRARY and name in PROGRAMS:
            allowed = _is_public(item.target)
        elif top == LIBRARY and rest:
            allowed = rest[0] in (*GROUND, name, *floor.floors, *late)
            may_be_early = item.lazy or _framework(module) or module == CHOOSES_GRAPHS
            early_graph = _framework(item.target) and not may_be_early
            allowed = bool(allowed and not early_graph)
        else:
            own = name if name in PROGRAMS else ""
            known = ("__future__", own, *floor.third_party, *late)
            allowed = top != "" and (top in sys.stdlib_module_names or top in known)
        if not allowed:
            found.append(f"{item.line}: {name} may not import {item.target}")
    return found


def _is_public(target: str) -> bool:
    """Return whether a program may import this: the page, a floor, or a name on its page."""
    floor, *names = target.split(".")[1:] or [""]
    if not names:
        return floor in ("", "__version__", *_page(Path(LIBRARY)), *FLOORS)
    folder = Path(LIBRARY, floor)
    if (ROOT / folder).is_dir():
        return len(names) == 1 and names[0] in _page(folder)
    return not names[0].startswith("_")


def _page(folder: Path) -> list[str]:
    """The names on the page of a folder; none where it has no page."""
    path = folder / "__init__.py"
    return (exported(read(path)) or []) if (ROOT / path).is_file() else []


def exported(source: str) -> list[str] | None:
    """The value of `__all__`, if there is one."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    return None


def sources(*folders: str) -> list[Path]:
    return sorted(
        path.relative_to(ROOT) for folder in folders for path in (ROOT / folder).rglob("*.py")
    )


def module_of(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def read(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def test_imports_go_down_only() -> None:
    found = [
        f"{path}:{text}"
        for path in sources(LIBRARY, *PROGRAMS)
        for text in violations(module_of(path), read(path))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("module", "source", "bad"),
    [
        ("bert_keras.config", "import json\nfrom bert_keras.errors import DataError", False),
        ("bert_keras.config", "import numpy as np", True),
        ("bert_keras.layers.transformer_block", "from bert_keras.config import BertConfig", True),
        ("bert_keras.layers.transformer_block", "from bert_keras import config", True),
        ("bert_keras.models.task", "from bert_keras.checkpoints import folders", False),
        ("bert_keras.checkpoints.folders", "from bert_keras.models import Task", True),
        ("bert_keras.checkpoints.folders", "def f():\n  from bert_keras.models import Task", True),
        ("bert_keras.checkpoints.folders", "if TYPE_CHECKING:\n  import bert_keras.models", False),
        ("bert_keras.models.task", "from bert_keras import BertEncoder", True),
        ("bert_keras.data.batch_datasets", "import tensorflow as tf", True),
        ("bert_keras.data.batch_datasets", "if TYPE_CHECKING:\n  import tensorflow as tf", False),
        ("bert_keras.tokenizers.basic_tokenizer", "import tensorflow", True),
        ("bert_keras.tokenizers.tf_tokenizer", "import tensorflow", False),
        ("bert_keras.export.saved_model", "from bert_keras.tokenizers import tf_tokenizer", True),
        (
            "bert_keras.export.saved_model",
            "def f():\n  import bert_keras.export.graph.signatures",
            False,
        ),
        (
            "bert_keras.export.graph.signatures",
            "from bert_keras.tokenizers import tf_tokenizer",
            False,
        ),
        ("bert_keras.layers.transformer_block", "from .attention import SelfAttention", True),
        ("bert_keras.training.pretrain", "from bert_keras import BertEncoder, export", False),
        ("bert_keras.training.pretrain", "from bert_keras.models.encoder import BertEncoder", True),
        ("bert_keras.training.pretrain", "from bert_keras.errors import UsageError", False),
        ("bert_keras.training.pretrain", "import benchmarks.data", True),
        ("bert_keras.training.pretrain", "import transformers", True),
        ("benchmarks.data", "import transformers", False),
        (
            "benchmarks.data",
            "from bert_keras.tokenizers.tf_tokenizer import InGraphTokenizer",
            False,
        ),
        ("bert_keras.training.pretrain", "from bert_keras.training.dry_run import plan", False),
        ("bert_keras.models.task", "from bert_keras.training import plan", True),
        ("training.pretrain", "from bert_keras.training.pretrain import main", False),
        ("examples.fill_mask", "from bert_keras.training.run_folder import PretrainFolder", True),
        ("examples.fill_mask", "def f():\n  import pandas", False),
        ("examples.fill_mask", "import keras_hub", True),
        ("examples.compare_sst2.peer", "def f():\n  import keras_hub", False),
    ],
)
def test_the_reader_of_imports(module: str, source: str, bad: bool) -> None:
    assert bool(violations(module, source)) is bad


def test_no_imports_run_in_a_circle() -> None:
    """Imports inside functions count. The public page and the hook of Keras reach everything."""
    modules = {module_of(path): path for path in sources(LIBRARY)}
    outside = (LIBRARY, f"{LIBRARY}.registration")
    below: dict[str, set[str]] = {}
    for module, path in modules.items():
        targets = [item.target for item in imports(read(path)) if not item.typing]
        found = {nearest for target in targets if (nearest := _nearest(target, modules))}
        below[module] = found - {module, *outside} if module not in outside else set()
    while leaves := [module for module, targets in below.items() if not targets & below.keys()]:
        for module in leaves:
            del below[module]
    assert not below, f"in a circle, or above one: {sorted(below)}"


def _nearest(target: str, modules: Mapping[str, Path]) -> str | None:
    """Return the module that an import names, or whose member it names."""
    while target and target not in modules:
        target = target.rpartition(".")[0]
    return target or None


def test_every_file_is_one_sitting() -> None:
    def most(path: Path) -> int:
        wide = path.parts[0] == "tests" or path.as_posix() in TABLES
        return MOST_LINES_OF_TESTS_AND_TABLES if wide else MOST_LINES

    lengths = {path: len(read(path).splitlines()) for path in sources(LIBRARY, *PROGRAMS, "tests")}
    long = [f"{path}: {n} lines, of {most(path)}" for path, n in lengths.items() if n > most(path)]
    assert not long, "\n".join(long)


def test_the_house_keeps_its_size() -> None:
    """Something new joins a file of its subject, or takes the place of another file."""
    programs = set(sources(f"{LIBRARY}/training", "training"))
    assert len(set(sources(LIBRARY)) - programs) <= 290
    assert len([path for path in programs if "recipes" not in path.parts]) <= 59
    assert len(sources("benchmarks")) <= 42


def test_a_key_that_is_twice_in_json_is_refused_everywhere() -> None:
    """`json.loads` takes the last of two values in silence; `file_io` has functions that do not."""
    found = [
        f"{path}:{line}"
        for path in sources(LIBRARY, "training")
        if path.as_posix() != f"{LIBRARY}/file_io.py"
        for line in lax_json(read(path))
    ]
    assert not found, f"use file_io.read_json, parse_json or decode_json: {found}"


def lax_json(source: str) -> list[int]:
    """List the lines that decode JSON without a hook for the pairs of an object."""
    lax = ("json.load", "json.loads", "json.JSONDecoder")
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in lax
        and not any(word.arg == "object_pairs_hook" for word in node.keywords)
    ]


def test_the_reader_of_json_calls() -> None:
    assert lax_json("json.loads(a)\njson.load(f)\njson.loads(a, object_pairs_hook=g)") == [1, 2]


def test_every_module_has_its_test_file() -> None:
    """Recipes are data, and tested as one."""
    missing = []
    for path in sources(LIBRARY, "training"):
        folder = path.parent if path.parts[0] == "training" else path.parent.relative_to(LIBRARY)
        mirror = ROOT / "tests" / folder / f"test_{path.stem.strip('_')}.py"
        if path.name != "__init__.py" and "recipes" not in path.parts and not mirror.is_file():
            missing.append(f"{mirror.relative_to(ROOT)} for {path}")
    assert not missing, "\n".join(missing)


def test_no_module_is_called_utils() -> None:
    names = {"utils", "util", "helpers", "common", "misc"}
    assert not [str(path) for path in sources(LIBRARY, *PROGRAMS, "tests") if path.stem in names]


def test_public_names_are_complete_and_sorted() -> None:
    """A page (`__init__`) lists what it imports from the library, in the order ruff sorts."""
    for path in sources(LIBRARY):
        source = read(path)
        names = exported(source)
        if path.name == "__init__.py" and path.parent.name != "kernels":  # which defines its names
            mine = [item for item in imports(source) if item.target.startswith(LIBRARY)]
            public = {item.target.rpartition(".")[2] for item in mine if not item.lazy}
            assert set(names or ()) == public, f"{path}: __all__ and the imports differ"
        if names is not None:
            assert names == sorted(set(names), key=_sort_key), f"{path}: __all__ is not sorted"


def _sort_key(name: str) -> tuple[int, str]:
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    return kind, name


def test_no_path_of_a_machine_is_written_anywhere() -> None:
    pattern = re.compile(r"(?<![\w.~])(/(?:home|mnt|opt|root|Users|work)/\w+)")
    kinds = {".cfg", ".json", ".md", ".py", ".toml", ".txt", ".yml", ""}
    folders = [LIBRARY, *PROGRAMS, "tests", "docs", ".ci", ".github", "saved_models"]
    files = [path for path in ROOT.iterdir() if path.suffix in kinds and path.is_file()]
    files = [path for path in files if path.name != ".git"]  # of a worktree
    for folder in folders:
        every = (ROOT / folder).rglob("*")
        files += [path for path in every if path.suffix in kinds and path.is_file()]
    found = [
        f"{path.relative_to(ROOT)}: {match[1]}"
        for path in files
        if "__pycache__" not in path.parts
        for match in pattern.finditer(path.read_text(encoding="utf-8", errors="replace"))
    ]
    assert not found, "\n".join(found)


_PROBE = f"""
import json, sys
def loaded():
    return [name for name in {HEAVY!r} if name in sys.modules]
import bert_keras
from bert_keras import BertConfig, PRESETS, Tokenizer
import bert_keras.data, bert_keras.metrics
library = loaded()
import keras
backend = loaded()
for name in bert_keras.__all__:
    getattr(bert_keras, name)
kernels = [name for name in sys.modules if name.endswith("_kernels")]
print(json.dumps([keras.backend.backend(), library, backend, loaded(), kernels]))
"""


def test_importing_the_library_loads_no_framework_but_the_backend() -> None:
    """The tokenizer and the config come without Keras; all the rest brings Keras's own backend."""
    run = subprocess.run(
        [sys.executable, "-c", _PROBE], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    name, library, backend, everything, kernels = json.loads(run.stdout.splitlines()[-1])
    assert library == []
    assert set(everything) <= set(backend)
    assert name == "tensorflow" or "tensorflow" not in everything
    assert kernels == [f"bert_keras.kernels.{name}_kernels"]
