"""Registration of all classes with Keras, in any order of imports."""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.machinery
import importlib.util
import itertools
import json
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import optimization, registration
from bert_keras.layers import SavedModelLayer
from bert_keras.models import BertEncoder, SequenceClassifier
from bert_keras.optimization import optimizer
from tests.models import every_model
from tests.models.every_model import TINY

ROOT = Path(__file__).parents[1]
# Modules of Keras whose classes no saved model names.
NOT_SAVED = ("keras.callbacks.", "keras.utils.")
# Abstract base classes of registered classes.
BASES = {
    *("DirectModel", "FastCall", "FitsText", "SerializableLayer", "Task", "TaskView"),
    *("RankingLoss", "VectorLoss", "WholeBatchLoss"),
    *("WithoutUnused",),
    *("_DistanceBias", "_SavesAdapters", "_SomeTokens"),
}
ON_TENSORFLOW = keras.backend.backend() == "tensorflow"


@functools.cache
def modules() -> tuple[ast.Module, ...]:
    """Return the syntax trees of the library."""
    paths = (ROOT / "bert_keras").rglob("*.py")
    return tuple(ast.parse(path.read_text(encoding="utf-8")) for path in paths)


def decorated_classes() -> dict[str, str]:
    """Return the registered name of each class with Keras's decorator, from the sources.

    The registered name has the class name or the decorator's argument `name`.
    """
    return {
        node.name: f"bert_keras>{_given_name(decorator) or node.name}"
        for module in modules()
        for node in ast.walk(module)
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
        for decorator in node.decorator_list
        if "register_keras_serializable" in ast.unparse(decorator)
    }


def _given_name(decorator: ast.expr) -> str:
    keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
    return next((ast.literal_eval(each.value) for each in keywords if each.arg == "name"), "")


def keras_classes(trees: Iterable[ast.Module]) -> set[str]:
    """Return the names of all subclasses of Keras classes that a saved model may name.

    The names come from the sources, because some modules require one backend.
    """
    bases: dict[str, set[str]] = {}
    for tree in trees:
        nodes = list(ast.walk(tree))
        imported = {
            name.asname or name.name: f"{node.module}.{name.name}"
            for node in nodes
            if isinstance(node, ast.ImportFrom)
            for name in node.names
        }
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                parts = [part for base in node.bases for part in ast.walk(base)]
                bases.setdefault(node.name, set()).update(
                    _full_name(ast.unparse(part), imported)
                    for part in parts
                    if isinstance(part, ast.Name | ast.Attribute)
                )
    found = {
        name
        for name, names in bases.items()
        if any(each.startswith("keras.") and not f"{each}.".startswith(NOT_SAVED) for each in names)
    }
    while True:
        below = {
            name
            for name, names in bases.items()
            if found & {each.rpartition(".")[2] for each in names}
        }
        if below <= found:
            return found
        found |= below


def _full_name(name: str, imported: dict[str, str]) -> str:
    first, dot, rest = name.partition(".")
    return imported.get(first, first) + dot + rest


def test_every_class_of_keras_is_registered() -> None:
    """Every subclass of a Keras class has the decorator, but for the base classes in `BASES`."""
    classes = keras_classes(modules())
    assert classes - decorated_classes().keys() == BASES
    assert len(classes) > 50


@pytest.mark.parametrize(
    "source",
    [
        "class Forgotten(keras.layers.Layer): ...",
        "from keras import losses\nclass Forgotten(losses.Loss): ...",
        "from keras.optimizers.schedules import LearningRateSchedule as Base\n"
        "class Forgotten(Base): ...",
        "class Forgotten(Mixin, class_of(keras.optimizers.SGD)): ...",
        "class First(keras.Model): ...\nclass Forgotten(module.First): ...",
    ],
)
def test_a_forgotten_class_is_found(source: str) -> None:
    assert "Forgotten" in keras_classes([ast.parse(source)])
    assert not keras_classes([ast.parse("class Other(keras.callbacks.Callback): ...")])


# === Saved models of every class, opened in a new process

OPTIMIZERS = itertools.cycle(optimization.OPTIMIZERS)


def _task() -> SequenceClassifier:
    """Return a task after one training step."""
    task = SequenceClassifier(BertEncoder(TINY), 2)
    task.compile(optimizer(1e-3, total_steps=2), **task.loss_and_metrics())
    task.fit(every_model.inputs(task), {"label": np.array([0, 1, 0])}, verbose=0)
    return task


def _functional() -> keras.Model:
    """Return a functional Keras model that contains an encoder."""
    encoder = BertEncoder(TINY)
    inputs = {
        each.name: keras.Input((None,), dtype="int32", name=each.name) for each in encoder.inputs
    }
    return keras.Model(inputs, keras.layers.Dense(1)(encoder(inputs)["pooled_output"]))


def _one_of_its_class(name: str) -> Any:
    """Return a new model, compiled with an optimizer if it has a loss."""
    model = every_model.MODELS[name]()
    if hasattr(model, "loss_and_metrics"):
        new = optimizer(1e-3, total_steps=2, name=next(OPTIMIZERS))
        model.compile(new, **model.loss_and_metrics())
        model.optimizer.build(model.trainable_variables)
    return model


MAKERS: dict[str, Callable[[], Any]] = {"trained": _task, "functional": _functional} | {
    class_name: functools.partial(_one_of_its_class, name)
    for class_name, name in every_model.BY_CLASS.items()
}


def _over_saved_model(folder: Path) -> tuple[keras.Model, dict[str, np.ndarray]]:
    """Return a Keras model that contains a SavedModel, and its inputs."""
    import tensorflow as tf

    class Table(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rows = tf.Variable(tf.reshape(tf.range(18.0), [9, 2]))

        @tf.function
        def __call__(self, inputs, training=False):  # noqa: ARG002
            return {"pooled_output": tf.reduce_mean(tf.gather(self.rows, inputs["ids"]), axis=1)}

    table, inputs = Table(), {"ids": keras.Input((None,), dtype="int32", name="ids")}
    spec = {"ids": tf.TensorSpec([None, None], tf.int32, "ids")}
    for training in (True, False):
        table.__call__.get_concrete_function(spec, training=training)  # pyright: ignore[reportAttributeAccessIssue]
    tf.saved_model.save(table, str(folder / "table"))
    layer = SavedModelLayer(folder / "table", trust=True, output="pooled_output", trainable=True)
    return keras.Model(inputs, keras.layers.Dense(1)(layer(inputs))), {"ids": IDS}


IDS = np.array([[2, 5, 6, 3], [2, 7, 3, 0]], "int32")


def _flat(outputs: Any) -> np.ndarray:
    arrays = [keras.ops.convert_to_numpy(each) for each in keras.tree.flatten(outputs)]
    return np.concatenate([np.ravel(each) for each in arrays])


@pytest.fixture(scope="module")
def saved_models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Save models and their inputs as JSON; return the outputs by file."""
    keras.utils.set_random_seed(0)
    folder = tmp_path_factory.mktemp("saved")
    models = {name: (model := make(), every_model.inputs(model)) for name, make in MAKERS.items()}
    if ON_TENSORFLOW:
        models["SavedModelLayer"] = _over_saved_model(folder)
    outputs = {}
    for name, (model, x) in models.items():
        path = folder / f"{name}.keras"
        model.save(path)
        path.with_suffix(".json").write_text(json.dumps({k: v.tolist() for k, v in x.items()}))
        outputs[str(path)] = _flat(model(x))
    return outputs


_NEW_PROCESS = """
import json, sys
{imports}
import numpy as np
import warnings
warnings.simplefilter("error", UserWarning)  # such as of variables that are not loaded
outputs = {{}}
for path in sys.argv[1:]:
    values = json.load(open(path.replace(".keras", ".json")))
    inputs = {{name: np.array(ids, "int32") for name, ids in values.items()}}
    # A SavedModel is a program, which must be allowed.
    model = keras.models.load_model(path, safe_mode="SavedModel" not in path)
    arrays = [keras.ops.convert_to_numpy(each) for each in keras.tree.flatten(model(inputs))]
    outputs[path] = np.concatenate([np.ravel(each) for each in arrays]).tolist()
    if "trained" in path:
        outputs[path].append(int(model.optimizer.iterations))
from keras.src.saving import object_registration
names = [name for name in object_registration.GLOBAL_CUSTOM_OBJECTS if "bert_keras>" in name]
heavy = [name for name in ("bert_keras.export", "bert_keras.checkpoints") if name in sys.modules]
finders = [repr(finder) for finder in sys.meta_path if "bert_keras" in repr(finder)]
print(json.dumps([outputs, names, heavy, finders]))
"""


@pytest.mark.parametrize(
    "order",
    ["import keras, bert_keras", pytest.param("import bert_keras, keras", marks=pytest.mark.slow)],
)
def test_saved_models_open_in_a_new_process(order: str, saved_models: dict[str, Any]) -> None:
    opened = list(saved_models)
    run = subprocess.run(
        [sys.executable, "-c", _NEW_PROCESS.format(imports=order), *opened],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    outputs, names, heavy, finders = json.loads(run.stdout.splitlines()[-1])
    assert set(decorated_classes().values()) - set(names) == set()
    for path in opened:
        expected = saved_models[path]
        np.testing.assert_allclose(outputs[path][: len(expected)], expected, atol=1e-5)
    assert [found[-1] for path, found in outputs.items() if "trained" in path] == [1]
    assert (heavy, finders) == ([], [])


def test_every_class_of_models_is_opened() -> None:
    assert every_model.BY_CLASS.keys() == {each.__name__ for each in every_model.discovered()}


def test_the_sources_are_read() -> None:
    assert len(decorated_classes()) > 40
    assert {f"bert_keras>{name}" for name in ("AdamW", "SavedModelLayer", "BertEncoder")} <= (
        set(decorated_classes().values())
    )


# === The import hook, with a small stand-in for Keras

Write = Callable[[str, str], None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Return a function that writes a module of a stand-in for Keras or for this library."""
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
    """If Keras imports the library, the next import of a library module registers."""
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
    """Registration also works if another import hook, such as wrapt's, wraps ours."""

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
