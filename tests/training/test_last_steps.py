"""Last steps of a run: a failed step does not prevent the independent ones."""

from __future__ import annotations

import copy
import errno
import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import pytest
import yaml

from bert_keras import export as library
from bert_keras.checkpoints.model_card import is_own_text
from bert_keras.errors import ArtifactError, Step, StepsFailedError, run_steps
from bert_keras.training import finetune, finetune_report, last_steps, pretrain

# The modules that define the last steps of each program, and the modules that run them.
PROGRAMS = {"pretrain": last_steps, "finetune": finetune_report}
RUNNERS = {"pretrain": pretrain, "finetune": finetune_report}
STEPS = [(name, step.name) for name, module in PROGRAMS.items() for step in module.STEPS]
ERRORS = {
    5: lambda: OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "the file"),
    4: lambda: ArtifactError("the file is damaged"),
    1: lambda: KeyError("a bug"),
}


def _saved_model(_task: Any, _tokenizer: Any, path: Path, **_options: Any) -> Path:
    path.mkdir(parents=True)
    return path


@pytest.fixture(scope="module", autouse=True)
def _no_true_export() -> Iterator[None]:
    """Replace the export by a stub, because test_pretrain.py tests the export."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "saved_model", _saved_model)
        patch.setattr(last_steps, "_ask", lambda *_: print("asked"))
        find_spec = importlib.util.find_spec
        patch.setattr(
            importlib.util,
            "find_spec",
            lambda name, *more: object() if name == "tensorflow_text" else find_spec(name, *more),
        )
        yield


@pytest.fixture(scope="module")
def trained(
    tiny: str, finetuning: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Any, Path, dict[str, set[str]]]]:
    """Return, by program, the results of a training, its folder, and the files of each step."""
    commands = {
        "pretrain": (pretrain.main, [tiny, "steps=2", "export=true"]),
        "finetune": (finetune.main, [finetuning("text_classification"), "--quicktest"]),
    }
    found = {}
    for name, (main, arguments) in commands.items():
        folder = tmp_path_factory.mktemp(name)

        def keep(steps: Any, results: Any, *, name: str = name, **messages: str) -> None:
            path = results.folder.path
            run_steps(steps, results, **messages)
            found[name] = results, path, {step.name: _written(step, path) for step in steps}

        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setattr(RUNNERS[name], "run_steps", keep)
            assert main([*arguments, f"out={folder / 'run'}"]) == 0
    return found


def _clear(steps: tuple[Step, ...], folder: Path) -> None:
    """Remove the files of the last steps."""
    for step in steps:
        for pattern in step.writes:
            for path in folder.glob(pattern):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _written(step: Step, folder: Path) -> set[str]:
    return {path.name for pattern in step.writes for path in folder.glob(pattern)}


@pytest.mark.parametrize("name", ["pretrain", "finetune"])
def test_the_model_card_has_the_results_and_no_path(name: str, trained: Any) -> None:
    """It comes first: the other tests remove files of the runs."""
    results, folder, _ = trained[name]
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert is_own_text(text)
    front = yaml.safe_load(text.split("---\n")[1])
    (measured,) = front["model-index"][0]["results"]
    metric = results.metric if name == "finetune" else "mlm_accuracy"
    assert metric in {value["name"] for value in measured["metrics"]}
    assert f"\n# {results.recipe.name}\n" in text
    assert f"| recipe | {results.recipe.name} |" in text
    assert "base_model" not in front  # the encoder is a folder of this machine
    assert str(folder.parent) not in text
    assert "predictor = " in text


def _run_failing(
    name: str, failing: str, error: Exception, trained: dict[str, Any]
) -> tuple[StepsFailedError, dict[str, set[str]]]:
    """Run the last steps with one that fails; return the error, and the files of each step."""
    results, folder, _ = trained[name]
    steps: tuple[Step, ...] = PROGRAMS[name].STEPS

    def fail(_: Any) -> None:
        raise error

    changed = [step._replace(run=fail) if step.name == failing else step for step in steps]
    fresh = copy.copy(results)
    for attribute in ("exported", "report", "task", "found"):
        if name == "finetune" or attribute in ("exported", "report"):
            setattr(fresh, attribute, None)
    if name == "finetune":
        fresh.pictures = set()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder.parent)
        _clear(steps, folder)
        with pytest.raises(StepsFailedError) as raised:
            run_steps(changed, fresh, done="done", again="again")
    return raised.value, {step.name: _written(step, folder) for step in steps}


@pytest.mark.parametrize(("name", "failing"), STEPS)
def test_a_step_that_fails_takes_no_other_with_it(name: str, failing: str, trained: Any) -> None:
    """Only the steps that need the failed one are left out, for every step of both programs."""
    error, left = _run_failing(name, failing, ERRORS[5](), trained)
    whole = trained[name][2]
    steps = {step.name: step for step in PROGRAMS[name].STEPS}
    lost = {failing}
    for step in steps.values():
        if lost.intersection(step.needs):
            lost.add(step.name)
    assert {step: left[step] for step in steps if step not in lost} == {
        step: whole[step] for step in steps if step not in lost
    }
    assert not any(left[step] for step in lost)
    assert error.exit_code == 5
    message = str(error)
    assert f"  {failing}: [Errno 28] No space left on device: 'the file'" in message
    assert message.count("left out") == len(lost) - 1


@pytest.mark.parametrize("code", ERRORS)
def test_the_exit_code_is_that_of_the_error(code: int, trained: Any) -> None:
    error, _ = _run_failing("finetune", "report", ERRORS[code](), trained)
    assert error.exit_code == code
    assert ("KeyError: 'a bug' (test_last_steps.py:" in str(error)) == (code == 1)


def test_nothing_is_needed_that_comes_later() -> None:
    for module in PROGRAMS.values():
        names = [step.name for step in module.STEPS]
        assert len(set(names)) == len(names)
        for number, step in enumerate(module.STEPS):
            assert set(step.needs) <= set(names[:number])


def test_the_model_comes_first_and_pictures_last() -> None:
    """The model is saved first, so that no later error can lose the training."""
    for module in PROGRAMS.values():
        written = [step.writes for step in module.STEPS if step.writes]
        assert "model.safetensors" in written[0]
        order = [name for writes in written for name in writes]
        assert order.index("model.safetensors") < order.index("report.md")


@pytest.mark.parametrize("blocked", ["report.md", "curve.png", "metrics.json", "model.safetensors"])
def test_a_place_that_cannot_be_written(
    blocked: str, finetuned: Callable, finetuning: Callable, tmp_path: Path, call: Callable
) -> None:
    """After an error, the same command writes the missing file without further training."""
    folder = shutil.copytree(finetuned("text_regression"), tmp_path / "run")
    card = folder / "run.json"
    card.write_text(card.read_text().replace(str(finetuned("text_regression")), "run"))
    _clear(finetune_report.STEPS, folder)
    (folder / blocked / "in the way").mkdir(parents=True)
    command = (finetune.main, finetuning("text_regression"), "--quicktest", "out=run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keras.Model, "fit", None)
        done = call(*command)
        assert done.code == 5, done.err
        assert done.err.count("error: ") == 1
        assert f"{blocked}'" in done.err
        assert "Traceback" not in done.err
        shutil.rmtree(folder / blocked)
        left = {path.name for path in folder.iterdir()}
        names = {"report.md", "curve.png", "metrics.json", "model.safetensors", "predictions.tsv"}
        assert names - left == {blocked}
        assert call(*command).code == 0
    assert names <= {path.name for path in folder.iterdir()}
