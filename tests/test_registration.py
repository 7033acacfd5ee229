"""All our classes are registered with Keras after `import bert_keras`, in whatever order."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import registration
from bert_keras.models import BertEncoder, SequenceClassifier
from bert_keras.optimization import optimizer
from tests.contracts import TINY

ROOT = Path(__file__).parents[1]
ON_TENSORFLOW = keras.backend.backend() == "tensorflow"


def decorated_classes() -> set[str]:
    """Return the registered name of every class of ours with Keras's decorator, by the sources."""
    return {
        f"bert_keras>{node.name}"
        for path in (ROOT / "bert_keras").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
        for decorator in node.decorator_list
        if "register_keras_serializable" in ast.unparse(decorator)
    }


INPUTS = {
    "token_ids": np.array([[2, 5, 6, 3], [2, 7, 3, 0]], "int32"),
    "segment_ids": np.zeros((2, 4), "int32"),
    "padding_mask": np.array([[1, 1, 1, 1], [1, 1, 1, 0]], "int32"),
}


@pytest.fixture(scope="module")
def saved_models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Files of models with our classes -> what they answer."""
    keras.utils.set_random_seed(0)
    folder = tmp_path_factory.mktemp("saved")
    task = SequenceClassifier(BertEncoder(TINY), 2)
    task.compile(optimizer(1e-3, total_steps=2), **task.objective())
    task.fit(INPUTS, {"label": np.array([0, 1])}, verbose=0)
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in INPUTS}
    outputs = keras.layers.Dense(1)(BertEncoder(TINY)(inputs)["pooled_output"])
    models = {"task": task, "functional": keras.Model(inputs, outputs)}
    answers = {}
    for name, model in models.items():
        model.save(folder / f"{name}.keras")
        answers[str(folder / f"{name}.keras")] = np.concatenate(
            [np.ravel(each) for each in keras.tree.flatten(model.predict(INPUTS, verbose=0))]
        )
    return answers


_NEW_PROCESS = """
import json, sys
{imports}
inputs = {{name: np.array(values, "int32") for name, values in json.loads(sys.argv[1]).items()}}
answers = {{}}
for path in sys.argv[2:]:
    model = keras.models.load_model(path)
    outputs = keras.tree.flatten(model.predict(inputs, verbose=0))
    answers[path] = np.concatenate([np.ravel(each) for each in outputs]).tolist()
    if getattr(model, "optimizer", None) is not None:
        answers[path].append(int(model.optimizer.iterations))
from keras.src.saving import object_registration
names = [name for name in object_registration.GLOBAL_CUSTOM_OBJECTS if "bert_keras>" in name]
heavy = [name for name in ("bert_keras.export", "bert_keras.checkpoints") if name in sys.modules]
finders = [repr(finder) for finder in sys.meta_path if "bert_keras" in repr(finder)]
print(json.dumps([answers, names, heavy, finders]))
"""


@pytest.mark.parametrize("order", ["import bert_keras, keras", "import keras, bert_keras"])
def test_saved_models_open_in_a_new_process(order: str, saved_models: dict[str, Any]) -> None:
    program = _NEW_PROCESS.format(imports=f"{order}\nimport numpy as np")
    inputs = json.dumps({name: values.tolist() for name, values in INPUTS.items()})
    run = subprocess.run(
        [sys.executable, "-c", program, inputs, *saved_models],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    answers, names, heavy, finders = json.loads(run.stdout.splitlines()[-1])
    assert decorated_classes() - set(names) == set()
    for path, expected in saved_models.items():
        np.testing.assert_allclose(answers[path][: len(expected)], expected, atol=1e-5)
    assert [answer[-1] for path, answer in answers.items() if "task" in path] == [1]
    assert (heavy, finders) == ([], [])


def test_the_sources_are_read() -> None:
    assert len(decorated_classes()) > 40
    assert {f"bert_keras>{name}" for name in ("AdamW", "SavedModelLayer", "BertEncoder")} <= (
        decorated_classes()
    )


# === The finder, with a small package in the place of Keras ===

Write = Callable[[str, str], None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write a module of a pretended Keras or of a pretended library with two pages."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registration, "_KERAS", "like_keras")
    monkeypatch.setattr(registration, "_LIBRARY", "like_ours")
    monkeypatch.setattr(registration, "PAGES", ("like_ours.first", "like_ours.second"))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))

    def write_module(name: str, source: str) -> None:
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(source), encoding="utf-8")
        importlib.invalidate_caches()

    write_module("like_keras/__init__", "from like_keras import src\nname = 'keras'")
    write_module("like_keras/src", "loads = []")
    register = "from bert_keras import registration\nregistration.register_with_keras()"
    write_module("like_ours/__init__", register)
    write_module("like_ours/plain", "")
    write_module("like_ours/first", "from like_keras import name\nvalue = 1")
    write_module("like_ours/second", "from like_ours.first import value")
    yield write_module
    for name in [name for name in sys.modules if name.startswith(("like_keras", "like_ours"))]:
        del sys.modules[name]


def is_registered() -> bool:
    return all(registration._is_ready(page) for page in registration.PAGES)


def finders() -> list[Any]:
    return [f for f in sys.meta_path if isinstance(f, registration._AfterKeras)]


@pytest.mark.parametrize(
    "statement",
    [
        "import like_keras",
        "import like_keras.src",
        "from like_keras import name",
        "from like_keras.src import loads",
        "import like_ours.first",
        "import like_ours.second",
        "from like_ours import first",
    ],
)
def test_every_way_of_importing_registers(write: Write, statement: str) -> None:
    exec("import like_ours")
    assert "like_keras" not in sys.modules
    exec("import like_ours.plain")
    assert len(finders()) == 1
    exec(statement)
    assert is_registered()
    assert finders() == []
    for name in ("like_keras", "like_ours.first"):
        loader = sys.modules[name].__spec__.loader  # pyright: ignore[reportOptionalMemberAccess]
        assert isinstance(loader, importlib.machinery.SourceFileLoader)
        assert sys.modules[name].__loader__ is loader
    importlib.reload(sys.modules["like_keras"])


def test_keras_first(write: Write) -> None:
    exec("import like_keras\nimport like_ours")
    assert is_registered()
    assert finders() == []


def test_a_question_for_keras_imports_nothing(write: Write) -> None:
    exec("import like_ours")
    for _ in range(2):
        spec = importlib.util.find_spec("like_keras")
        assert spec is not None
        assert spec.loader is not None
        assert spec.loader.is_package("like_keras")  # pyright: ignore[reportAttributeAccessIssue]
    assert importlib.util.find_spec("like_keras_that_is_absent") is None
    assert "like_keras" not in sys.modules
    exec("import like_keras")
    assert is_registered()


def test_an_import_of_keras_that_fails_can_be_repeated(write: Write) -> None:
    exec("import like_ours")
    write("like_keras/src", "raise ImportError('no backend')")
    for statement in ("import like_keras", "import like_ours.first"):
        with pytest.raises(ImportError, match="no backend"):
            exec(statement)
    assert not is_registered()
    write("like_keras/src", "loads, mended = [], True")
    exec("import like_keras")
    assert is_registered()


def test_a_page_that_fails_warns_and_the_import_of_keras_goes_on(write: Write) -> None:
    exec("import like_ours")
    write("like_ours/second", "raise ImportError('no such part')")
    with pytest.warns(RuntimeWarning, match="could not register.*no such part"):
        exec("import like_keras")
    assert sys.modules["like_keras"].name == "keras"


def test_the_library_is_imported_by_keras_itself(write: Write) -> None:
    """Nothing is complete then: the next import of a module of ours registers."""
    write("like_keras/src", "import like_ours")
    exec("import like_keras")
    assert not is_registered()
    exec("import like_ours.plain")
    assert is_registered()


def test_the_library_is_imported_while_another_thread_imports_keras(write: Write) -> None:
    started, may_end = threading.Event(), threading.Event()
    write("like_keras/src", "from tests import test_registration\ntest_registration.PAUSE()")

    def pause() -> None:
        started.set()
        assert may_end.wait(60)

    globals()["PAUSE"] = pause
    threads = [threading.Thread(target=importlib.import_module, args=["like_keras"])]
    threads[0].start()
    assert started.wait(60)
    threads.append(threading.Thread(target=importlib.import_module, args=["like_ours"]))
    threads[1].start()
    may_end.set()
    for thread in threads:
        thread.join(60)
    assert is_registered()


def test_threads_that_import_keras_and_a_page_at_once(write: Write) -> None:
    exec("import like_ours")
    write("like_keras/src", "import time\ntime.sleep(0.05)")
    start = threading.Barrier(4)

    def run(name: str) -> None:
        start.wait(60)
        importlib.import_module(name)

    names = ("like_keras", "like_ours.second", "like_ours.first", "like_ours.plain")
    threads = [threading.Thread(target=run, args=[name]) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert is_registered()


def test_reloading_the_library_adds_no_finder(write: Write) -> None:
    exec("import like_ours")
    importlib.reload(sys.modules["like_ours"])
    assert len(finders()) == 1


def test_finders_that_ask_all_finders(write: Write) -> None:
    """As wrapt's and others' do, which stand before or around ours."""

    class Around:
        def __init__(self, finder: Any):
            self.finder = finder

        def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
            return self.finder.find_spec(name, path, target)

    exec("import like_ours")
    sys.meta_path[:] = [
        Around(finder) if isinstance(finder, registration._AfterKeras) else finder
        for finder in sys.meta_path
    ]
    exec("import like_keras")
    assert is_registered()
