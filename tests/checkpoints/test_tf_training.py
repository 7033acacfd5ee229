"""Checkpoints of a TensorFlow training: several steps, moving averages, TensorFlow 2."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras import BertEncoder, MaskedLM, Predictor, Tokenizer, load_checkpoint, save_checkpoint
from bert_keras.checkpoints import google_tf1, tf_checkpoint
from bert_keras.errors import ArtifactError
from tests import contracts
from tests.checkpoints.test_tf_hub import garden
from tests.hub import WORDS

TINY = contracts.TINY.replace(activation="gelu_tanh")
AVERAGE = "/ExponentialMovingAverage"


@pytest.fixture(scope="module", autouse=True)
def tensorflow() -> Any:
    """Return TensorFlow, imported without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("tensorflow")


def _model(seed: int) -> MaskedLM:
    return contracts.as_trained(MaskedLM(BertEncoder(TINY)), seed=seed)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, MaskedLM]]:
    """Return a folder with the steps 900, 1000 and 2000 of a training, and their models."""
    folder = tmp_path_factory.mktemp("written")
    models = {step: _model(step) for step in (900, 1000, 2000)}
    for step, model in models.items():
        save_checkpoint(model, folder / "one", format="google_tf1")
        for path in (folder / "one").iterdir():
            name = path.name.replace(google_tf1.PREFIX, f"model.ckpt-{step}")
            shutil.copyfile(path, folder / name)
    shutil.rmtree(folder / "one")
    Tokenizer(WORDS).save_to_preset(folder)
    return folder, models


@pytest.fixture
def steps(written: tuple[Path, dict[int, MaskedLM]], tmp_path: Path) -> Path:
    """Return a copy of the folder with several steps."""
    return Path(shutil.copytree(written[0], tmp_path / "steps"))


def test_the_step_that_the_file_checkpoint_names(
    steps: Path, written: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in ("model.ckpt-1000", "/elsewhere/run/model.ckpt-1000", "C:\\run\\model.ckpt-1000"):
        text = f'model_checkpoint_path: "{path}"\nall_model_checkpoint_paths: "model.ckpt-900"\n'
        (steps / "checkpoint").write_text(text)
        contracts.assert_same_weights(load_checkpoint(steps), written[1][1000])
        assert capsys.readouterr().err == (
            f"{steps / 'model.ckpt-1000'}: opened, because the file checkpoint names it. "
            "Others: model.ckpt-900, model.ckpt-2000.\n"
        )


@pytest.mark.parametrize("ending", ["", ".index"])
def test_a_handle_of_one_step(
    ending: str, steps: Path, written: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The handle opens its step with the tokenizer of the folder, whatever `checkpoint` names."""
    (steps / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-900"\n')
    handle = f"{steps / 'model.ckpt-2000'}{ending}"
    opened = load_checkpoint(handle)
    contracts.assert_same_weights(opened, written[1][2000])
    assert opened.tokenizer == Tokenizer(WORDS)
    contracts.assert_same_weights(BertEncoder.from_preset(handle), written[1][2000].encoder)
    assert Predictor.from_preset(handle).tokenizer == Tokenizer(WORDS)
    assert capsys.readouterr().err == ""


def test_no_choice_of_a_step(steps: Path) -> None:
    all_steps = "Received: model.ckpt-900, model.ckpt-1000, model.ckpt-2000"
    advice = r"Name one of them: .*steps/model\.ckpt-2000$"
    with pytest.raises(ArtifactError, match=f"{all_steps}, and no file 'checkpoint'.*{advice}"):
        load_checkpoint(steps)
    for text in ('model_checkpoint_path: "model.ckpt-3000"', 'model_checkpoint_path: ".."'):
        (steps / "checkpoint").write_text(text)
        with pytest.raises(ArtifactError, match=f"{all_steps}, and no .*{advice}"):
            load_checkpoint(steps)
    (steps / "checkpoint").write_bytes(b"\xff\x00")
    with pytest.raises(ArtifactError, match=all_steps):
        load_checkpoint(steps)


# === Moving averages ===


def _write(prefix: Path, variables: dict[str, np.ndarray]) -> None:
    import tensorflow as tf

    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=list(variables),
        shape_and_slices=[""] * len(variables),
        tensors=list(variables.values()),
    )


def _variables(model: Any) -> dict[str, np.ndarray]:
    names = google_tf1.name_map("bert", type(model).__name__, {})
    values = contracts.weights(model)
    return {
        spec.tensor: spec.layout.to_checkpoint_layout(values[spec.path])
        for spec in names.tensor_specs(model.weights)
    }


def _averaged(folder: Path, *, plain: bool, averages: bool) -> tuple[MaskedLM, MaskedLM]:
    """Write plain variables, their averages or both; return the models of both.

    The position table has no average, as a variable that is not trained.
    """
    model, mean = _model(1), _model(2)
    save_checkpoint(model, folder, format="google_tf1")
    position = "bert/embeddings/position_embeddings"
    variables = _variables(model) if plain else {}
    if averages:
        variables |= {f"{name}{AVERAGE}": value for name, value in _variables(mean).items()}
        variables.pop(f"{position}{AVERAGE}")
    variables[position] = _variables(model)[position]
    variables["bert/embeddings/word_embeddings/adam_m"] = np.zeros((50, 8), "float32")
    _write(folder / google_tf1.PREFIX, variables)
    mean.encoder.embeddings.position.set_weights(model.encoder.embeddings.position.get_weights())
    return model, mean


def test_plain_variables_beside_averages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, mean = _averaged(tmp_path, plain=True, averages=True)
    contracts.assert_same_weights(load_checkpoint(tmp_path), model)
    line = capsys.readouterr().err
    assert "opened without the moving averages" in line
    assert "convert FOLDER NEW --averages`" in line
    contracts.assert_same_weights(load_checkpoint(tmp_path, averages=True), mean)
    contracts.assert_same_weights(BertEncoder.from_preset(tmp_path, averages=True), mean.encoder)
    contracts.assert_same_weights(MaskedLM.from_preset(tmp_path, averages=True), mean)
    assert capsys.readouterr().err == ""


def test_averages_alone(tmp_path: Path) -> None:
    _, mean = _averaged(tmp_path, plain=False, averages=True)
    with pytest.raises(ArtifactError, match=rf"such as bert/.*{AVERAGE}\. To .*: averages=True"):
        load_checkpoint(tmp_path)
    contracts.assert_same_weights(load_checkpoint(tmp_path, averages=True), mean)


def test_no_averages(tmp_path: Path) -> None:
    _averaged(tmp_path, plain=True, averages=False)
    with pytest.raises(ArtifactError, match=r"has no moving averages, .* Leave averages=True out"):
        load_checkpoint(tmp_path, averages=True)


# === Object-based checkpoints of TensorFlow 2 ===


def write_objects(
    tf: Any,
    folder: Path,
    variables: dict[str, np.ndarray],
    averages: dict[str, np.ndarray] | None = None,
) -> Path:
    """Write variables as a training of TensorFlow 2 does, with an optimizer; return the prefix.

    The Model Garden's optimizer stores moving averages in slots of the name "average".
    """
    made = {name: tf.Variable(value, name=name) for name, value in variables.items()}
    optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.1)
    for name, variable in made.items():
        optimizer._get_or_make_slot(variable, tf.zeros_like(variable), "m", "Adam")
        if averages is not None:
            optimizer._get_or_make_slot(variable, tf.constant(averages[name]), "average", "Mean")
    model = tf.Module()
    model.layers = list(made.values())
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, step=tf.Variable(7))
    return Path(checkpoint.write(str(folder / "ckpt-7")))


@pytest.mark.parametrize("case", ["encoder", "mlm"])
def test_a_training_of_the_model_garden(
    case: str, tensorflow: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With Google's config beside it, it opens without `trust`, because nothing is assumed."""
    models = [
        contracts.as_trained(MaskedLM(BertEncoder(TINY)) if case == "mlm" else BertEncoder(TINY), n)
        for n in (1, 2)
    ]
    save_checkpoint(models[0], tmp_path / "tf1", format="google_tf1")
    shutil.copy(tmp_path / "tf1" / "bert_config.json", tmp_path)
    write_objects(tensorflow, tmp_path, *map(garden, models))
    opened = load_checkpoint(tmp_path)
    assert type(opened) is type(models[0])
    contracts.assert_same_weights(opened, models[0])
    assert "convert FOLDER NEW --averages`" in capsys.readouterr().err
    contracts.assert_same_weights(load_checkpoint(tmp_path, averages=True), models[1])
    contracts.assert_same_weights(load_checkpoint(tmp_path / "ckpt-7"), models[0])


def test_another_program_of_tensorflow_2(tensorflow: Any, tmp_path: Path) -> None:
    """Names that are not the Model Garden's are shown, with what to do."""
    save_checkpoint(BertEncoder(TINY), tmp_path / "tf1", format="google_tf1")
    shutil.copy(tmp_path / "tf1" / "bert_config.json", tmp_path)
    names = ("my_model/word_embeddings/kernel", "my_model/dense/kernel")
    prefix = write_objects(
        tensorflow, tmp_path, {name: np.ones((3, 2), "float32") for name in names}
    )
    assert tf_checkpoint.is_object_based(prefix)
    assert not tf_checkpoint.is_object_based(tmp_path / "tf1" / google_tf1.PREFIX)
    with pytest.raises(
        ArtifactError,
        match=r"ckpt-7: an object-based checkpoint of TensorFlow 2\. "
        r".*word_embeddings/embeddings \(closest in the file: .*\)\. Restore it",
    ):
        load_checkpoint(tmp_path)
