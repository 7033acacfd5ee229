"""The time that is left."""

from __future__ import annotations

import pytest

from bert_keras.training.pace import Pace


def test_it_is_not_known_before_the_second_step() -> None:
    pace = Pace(10)
    assert pace.seconds_left is None
    pace.step(1.0, 1)
    assert pace.seconds_left is None
    pace.step(3.0, 2)
    assert pace.seconds_left == pytest.approx(8 * 2.0)
    pace.step(5.0, 10)
    assert pace.seconds_left == 0


def test_the_speed_is_that_of_the_last_minute() -> None:
    pace, now = Pace(1_000), 0.0
    for step in range(1, 11):  # slow at first
        now += 100
        pace.step(now, step)
    for step in range(11, 200):
        now += 1
        pace.step(now, step)
    assert pace.seconds_left == pytest.approx(1_000 - 199)


def test_what_goes_aside_counts_as_often_as_before() -> None:
    pace, now = Pace(1_000, start_step=100), 0.0
    for step in range(101, 201):
        now += 1
        pace.step(now, step)
        if step % 50 == 0:
            pace.aside(now)
            pace.aside(now + 75)  # longer than the time over which the speed is measured
            now += 100
            pace.step(now, step)
    assert pace.seconds_left == pytest.approx(800 * (1 + 200 / 100))


def test_trainings_that_follow_count() -> None:
    pace = Pace(100, later_steps=200)
    for step in range(1, 41):
        pace.step(float(step), step)
    assert pace.seconds_left == pytest.approx(60 + 200)
