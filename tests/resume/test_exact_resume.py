"""A run that stops after any step and resumes in another process gives the same bits."""

from __future__ import annotations

from pathlib import Path

import keras
import pytest

from bert_keras.resume import TrainingCheckpoints

STEPS = 5


class _Warmup(keras.optimizers.schedules.LearningRateSchedule):
    """Learning rate that rises with each step, so that a wrong step count would show."""

    def __call__(self, step):
        return 0.01 * keras.ops.cast(step + 1, "float32") / STEPS

    def get_config(self):
        return {}


# LAMB and averages branch within a step, which is slow without compiling. Their models are cached.
EAGER = {
    "adam": lambda: keras.optimizers.Adam(_Warmup(), global_clipnorm=1.0),
    "muon": lambda: keras.optimizers.Muon(0.01, exclude_layers=["nsp"]),
    "lamb": lambda: keras.optimizers.Lamb(0.01, weight_decay=0.1),
    "ema": lambda: keras.optimizers.AdamW(0.01, use_ema=True, ema_overwrite_frequency=2),
}
COMPILED = {
    "accumulation": lambda: keras.optimizers.AdamW(0.01, gradient_accumulation_steps=3),
    "both": lambda: keras.optimizers.AdamW(0.01, gradient_accumulation_steps=2, use_ema=True),
}


def _run_and_resume_everywhere(tmp_path: Path, new_model, train, snapshot) -> None:
    """Resume after each step and compare the end with that of the run without a stop.

    `new_model(seed)` must return a compiled model.
    """
    whole = new_model(0)
    for step in range(STEPS):
        train(whole, step, step + 1)
        TrainingCheckpoints(tmp_path / str(step + 1)).save(whole, {"step": step + 1})
    for step in range(1, STEPS):
        resumed = new_model(step)
        assert TrainingCheckpoints(tmp_path / str(step)).restore(resumed) == {"step": step}
        assert snapshot(resumed) != snapshot(whole)
        train(resumed, step, STEPS)
        assert snapshot(resumed) == snapshot(whole), f"after step {step}"


def test_at_every_step(tmp_path, build, train, snapshot):
    _run_and_resume_everywhere(tmp_path, build, train, snapshot)


@pytest.mark.parametrize("optimizer", EAGER)
def test_at_every_step_with_other_optimizers(tmp_path, build, train, snapshot, optimizer):
    def new_model(seed):
        return build(seed, EAGER[optimizer](), run_eagerly=True)

    _run_and_resume_everywhere(tmp_path, new_model, train, snapshot)


@pytest.mark.parametrize("optimizer", COMPILED)
def test_within_an_accumulated_step(tmp_path, build, train, snapshot, optimizer):
    models = [build(seed, COMPILED[optimizer]()) for seed in range(2)]
    _run_and_resume_everywhere(tmp_path, lambda n: models[min(n, 1)], train, snapshot)


def test_loss_scale(tmp_path, build, train, snapshot, mixed_float16):
    def new_model(seed):
        scaled = keras.optimizers.LossScaleOptimizer(
            keras.optimizers.AdamW(0.01), initial_scale=2.0**20, dynamic_growth_steps=2
        )
        return build(seed, scaled)

    models = [new_model(seed) for seed in range(2)]
    _run_and_resume_everywhere(tmp_path, lambda n: models[min(n, 1)], train, snapshot)
    TrainingCheckpoints(tmp_path / "4").restore(models[1])
    scale = float(keras.ops.convert_to_numpy(models[1].optimizer.dynamic_scale))
    assert scale != 2.0**20, "the scale should have moved, else this tests nothing"


def test_compile_wraps_the_optimizer_under_mixed_float16(tmp_path, build, mixed_float16):
    model = build()
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    folder = TrainingCheckpoints(tmp_path).save(model, {"step": 1})
    assert "dynamic_scale" in (folder / "variables.json").read_text()


def test_the_seeds_matter(tmp_path, build, train, snapshot):
    """A wrong state of a seed generator changes the run, so that the other tests would see it."""
    whole = build(0, run_eagerly=True)
    checkpoints = TrainingCheckpoints(tmp_path)
    train(whole, 0, 2)
    checkpoints.save(whole, {"step": 2})
    train(whole, 2, 3)
    resumed = build(1, run_eagerly=True)
    checkpoints.restore(resumed)
    (seed, *_) = [v for v in resumed.variables if v.name == "seed_generator_state"]
    seed.assign(seed + 1)
    train(resumed, 2, 3)
    assert snapshot(resumed) != snapshot(whole)


def test_a_used_model_can_be_restored(tmp_path, build, train, snapshot):
    """A compiled training step uses the restored values, and not those it was traced with."""
    model = build()
    checkpoints = TrainingCheckpoints(tmp_path)
    train(model, 0, 1)
    checkpoints.save(model, {"step": 1})
    train(model, 1, 4)
    end = snapshot(model)
    checkpoints.restore(model)
    train(model, 1, 4)
    assert snapshot(model) == end
