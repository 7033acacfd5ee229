"""Rehearsal: a task with a head of its own is added by rows of tables, and works on every floor.

The task tells how long a text takes to read, as a number above 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, final

import keras
import numpy as np
import pytest

import bert_keras
from bert_keras import BertEncoder, Predictor, Tokenizer, features, models, task_names
from bert_keras.checkpoints import (
    hugging_face_folder,
    hugging_face_names,
    hugging_face_tensors,
)
from bert_keras.data import SupervisedExamples, Texts, encode
from bert_keras.inference.base import TextMethods, one_or_many
from bert_keras.layers import ClassificationHead
from bert_keras.models import Task
from bert_keras.models.task import task_inputs
from bert_keras.training.finetune import main
from bert_keras.training.finetune_data import quicktest_recipe
from bert_keras.training.finetune_recipe import FinetuneRecipe
from bert_keras.training.tasks import registry
from bert_keras.training.tasks.task import (
    Evaluation,
    TextTask,
    write_glue,
    write_rows,
)
from tests import contracts

_OUTPUT = "seconds"

# === New file: inference/reading_time.py ===


class ReadingTimeMethods(TextMethods):
    """Methods of models that tell a time."""

    @one_or_many("texts")
    def predict_seconds(self, texts: str | Sequence[str]) -> np.ndarray:
        """Return the seconds that each text takes: float32 [texts]."""
        runner = self._runner()
        return runner.per_example(_OUTPUT, runner.encode(texts))[:, 0]


# === New file: models/reading_time.py ===


@keras.saving.register_keras_serializable(package="bert_keras")
@final
class ReadingTime(ReadingTimeMethods, Task):
    """Tells how long a text takes to read, from its [CLS] token."""

    task_name = "reading_time"
    head_layers = (_OUTPUT,)
    answers_with = "predict_seconds"

    def __init__(
        self,
        encoder: BertEncoder,
        *,
        name: str = "reading_time",
        tokenizer: Tokenizer | None = None,
    ):
        head = ClassificationHead(
            1, encoder.config.hidden_size, hidden_activation="tanh", name=_OUTPUT
        )
        inputs = task_inputs(encoder)
        first = encoder.first_token()(inputs)[features.SEQUENCE_OUTPUT][:, 0]
        outputs = {_OUTPUT: keras.ops.softplus(head(first))}
        super().__init__(encoder, inputs, outputs, options={}, name=name, tokenizer=tokenizer)
        self.head = head

    def examples_of(self, columns: Sequence[Any], y: Any, **options: Any) -> SupervisedExamples:
        texts = Texts(list(columns[0]), None, None if y is None else list(y))
        return _examples(self.required_tokenizer(), texts, **options)

    def loss_and_metrics(self) -> dict[str, Any]:
        metric = keras.metrics.MeanAbsoluteError(name="mean_absolute_error")
        return {
            "loss": {_OUTPUT: keras.losses.MeanSquaredError()},
            "weighted_metrics": {_OUTPUT: [metric]},
        }


def _examples(
    tokenizer: Tokenizer, texts: Texts, max_length: int = 128, **options: Any
) -> SupervisedExamples:
    rows = encode(tokenizer, texts.texts, max_length=max_length)
    seconds = np.asarray(texts.targets, np.float32)[:, None]
    return SupervisedExamples(rows, {_OUTPUT: seconds}, max_length=max_length, **options)


# === New file: training/tasks/reading_time.py ===


class ReadingTimeTask(TextTask):
    """A `ReadingTime`, measured by the mean of the errors' squares."""

    problem = "regression"
    packages = ()

    def build(self, encoder: BertEncoder, labels: list[str] | None) -> Task:
        del labels
        return ReadingTime(encoder)

    def examples(
        self, tokenizer: Tokenizer, data: Texts, labels: Any, **options: Any
    ) -> SupervisedExamples:
        del labels
        texts = Texts(data.texts, None, data.targets)
        return _examples(tokenizer, texts, max_length=self.recipe.max_length, **options)

    def evaluate(self, predictor: Predictor, data: Texts) -> Evaluation:
        seconds = np.asarray(predictor(data.texts))
        errors = (seconds - np.array(data.targets)) ** 2
        return Evaluation({"mean_squared_error": float(errors.mean())}, self._written(seconds), [])

    def predict(self, predictor: Predictor, data: Texts) -> list[str]:
        return self._written(np.asarray(predictor(data.texts)))

    def _written(self, seconds: np.ndarray) -> list[str]:
        return [f"{each:.4f}" for each in seconds]

    def write(self, path: Path, data: Texts, predictions: Sequence[Any]) -> None:
        del data
        write_glue(path, predictions)

    def quicktest_data(self, folder: Path) -> dict[str, str]:
        rows = [{"text": "was " * count, "label": float(count)} for count in range(1, 9)]
        return {"train": write_rows(folder, rows)}


# === New rows of tables ===


_NATIVE = hugging_face_names.NATIVE
# Table, key and value: a row each in a file that is there.
ROWS: list[tuple[Any, str, Any]] = [
    # In one file: the class of the task, and the folders without a file of its name.
    (task_names.FINETUNED, "reading_time", ("ReadingTime",)),
    (task_names.WITHOUT_FILE["data"], "reading_time", "text_classification.py reads numbers"),
    (task_names.WITHOUT_FILE["metrics"], "reading_time", "text_classification.py has errors"),
    (task_names.WITHOUT_FILE["export/graph"], "reading_time", "text_classification.py"),
    (task_names.WITHOUT_FILE["export/runtimes"], "reading_time", "the output is a number"),
    (registry.TASKS, "reading_time", ReadingTimeTask),
    (vars(models), "ReadingTime", ReadingTime),
    (bert_keras._HOMES, "ReadingTime", "models"),
    # In one file: the layers of the head, and the class.
    (_NATIVE.heads, f"{_OUTPUT}/dense", "seconds_dense"),
    (_NATIVE.heads, f"{_OUTPUT}/output", "seconds"),
    (_NATIVE.classes, "ReadingTime", ""),
]
_ROWS_OF_ONE_FILE = 4 + 2  # beside the first row of the file
_NEW_FILES = ("inference", "models", "training/tasks")
_SIGNATURE = 1  # in `export/graph/signatures.py`, which needs TensorFlow
_MOST_PLACES = 9


@pytest.fixture(autouse=True)
def task() -> Iterator[None]:
    """Add the rows, and what is made of the tables when they are imported."""
    with pytest.MonkeyPatch.context() as patch:
        for table, key, value in ROWS:
            if table is vars(models):
                patch.setattr(models, key, value, raising=False)
            else:
                patch.setitem(table, key, value)
        classes = {*hugging_face_folder.CLASSES, "ReadingTime"}
        patch.setattr(hugging_face_folder, "CLASSES", classes)
        patch.setattr(hugging_face_tensors, "HEADS", (*hugging_face_tensors.HEADS, _OUTPUT))
        yield


@pytest.fixture
def tokenizer() -> Tokenizer:
    letters = [*"abcdefgh", *(f"##{letter}" for letter in "abcdefgh")]
    return Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters])


def _task(tokenizer: Tokenizer) -> ReadingTime:
    config = contracts.TINY.replace(vocab_size=tokenizer.vocab_size)
    return contracts.as_trained(ReadingTime(BertEncoder(config), tokenizer=tokenizer))


# === Tests ===


def test_a_task_is_few_places() -> None:
    assert len(_NEW_FILES) + len(ROWS) - _ROWS_OF_ONE_FILE + _SIGNATURE <= _MOST_PLACES


@pytest.mark.parametrize("folder", task_names.WITHOUT_FILE)
def test_a_folder_has_a_file_of_the_task_or_a_reason(folder: str) -> None:
    assert (folder in _NEW_FILES) != ("reading_time" in task_names.WITHOUT_FILE[folder])


def test_it_is_on_the_page() -> None:
    assert bert_keras.ReadingTime is ReadingTime  # pyright: ignore[reportAttributeAccessIssue]
    assert task_names.tasks_of_class("ReadingTime") == ["reading_time"]


def test_it_learns_from_strings_and_answers(tokenizer: Tokenizer) -> None:
    task = _task(tokenizer)
    texts = ["a", "a b", "a b c", "a b c d"] * 4
    history = task.fit(texts, [1.0, 2.0, 3.0, 4.0] * 4, epochs=40, learning_rate=0.01, verbose=0)
    assert history.history["loss"][-1] < 0.5 * history.history["loss"][0]
    answers = task.predict_seconds(texts[:4])
    assert answers.shape == (4,)
    np.testing.assert_allclose(Predictor(task)(texts[:4]), answers, atol=1e-6)


def test_a_folder_opens_as_the_task(tokenizer: Tokenizer, tmp_path: Path) -> None:
    task = _task(tokenizer)
    task.save_to_preset(tmp_path)
    opened = bert_keras.load_checkpoint(tmp_path)
    assert type(opened) is ReadingTime
    np.testing.assert_array_equal(opened.predict_seconds(["a b"]), task.predict_seconds(["a b"]))
    np.testing.assert_allclose(
        Predictor.from_preset(tmp_path)(["a b"]), task.predict_seconds(["a b"]), atol=1e-6
    )


def test_a_keras_file_opens(tokenizer: Tokenizer, tmp_path: Path) -> None:
    task = _task(tokenizer)
    task.save(tmp_path / "task.keras")
    opened: Any = keras.models.load_model(tmp_path / "task.keras")
    np.testing.assert_array_equal(opened.predict_seconds(["a b"]), task.predict_seconds(["a b"]))


def test_a_run_of_fine_tuning(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    recipe = quicktest_recipe(FinetuneRecipe(task="reading_time"), tmp_path / "data")
    values = ("encoder", "train", "dev")
    path = tmp_path / "reading.py"
    path.write_text(
        "from bert_keras.training import FinetuneRecipe\n\n"
        "recipe = FinetuneRecipe(task='reading_time', workers=1)\n",
        encoding="utf-8",
    )
    given = [f"{name}={getattr(recipe, name)}" for name in values]
    run = tmp_path / "run"
    code = main([str(path), *given, "epochs=1", "max_length=16", "batch_size=4", f"out={run}"])
    assert code == 0
    metrics = json.loads((run / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["metrics"].keys() >= {"mean_squared_error"}
    assert type(bert_keras.load_checkpoint(run)) is ReadingTime
    assert "mean_squared_error" in capfd.readouterr().out


def test_a_saved_model_answers(tokenizer: Tokenizer, tmp_path: Path) -> None:
    if keras.backend.backend() != "tensorflow":
        pytest.skip("backend: another process, without the rows, would write the SavedModel")
    tensorflow: Any = pytest.importorskip("tensorflow")
    pytest.importorskip("tensorflow_text")
    from bert_keras.export.graph import signatures
    from bert_keras.export.graph.text_classification import GraphTexts, call_model

    def seconds(predictor: Predictor, in_graph: Any) -> dict[str, Any]:
        texts = GraphTexts(predictor.task, in_graph, max_length=predictor.max_length)
        return {
            signatures.DEFAULT: lambda text: {
                _OUTPUT: call_model(predictor.task, texts.encode(text))[_OUTPUT]
            }
        }

    task = _task(tokenizer)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(signatures.SIGNATURES, "reading_time", seconds)
        bert_keras.export.saved_model(task, tokenizer, tmp_path / "1")
    served = tensorflow.saved_model.load(str(tmp_path / "1")).signatures["serving_default"]
    answer = served(text=tensorflow.constant(["a b", "c"]))[_OUTPUT].numpy()[:, 0]
    np.testing.assert_allclose(answer, task.predict_seconds(["a b", "c"]), atol=1e-5)
