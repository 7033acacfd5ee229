"""Speed of the steps, and the time that is left."""

from __future__ import annotations

from collections import deque

_SECONDS = 60.0  # over which the speed is measured


class Pace:
    """Steps, and what goes aside between them, as seconds of one clock tell.

    Args:
        total_steps: of the whole training.
        start_step: where it begins.
        later_steps: of trainings that follow.
    """

    def __init__(self, total_steps: int, start_step: int = 0, later_steps: int = 0):
        self._total, self._later = total_steps, later_steps
        self._start = self._step = start_step
        self._marks: deque[tuple[float, int]] = deque()
        self._aside_since: float | None = None
        self._aside_seconds = 0.0

    def aside(self, now: float) -> None:
        """Note work other than a step; the first call begins it, and the next step ends it."""
        if self._aside_since is None:
            self._aside_since = now

    def step(self, now: float, step: int) -> None:
        """So many steps are done."""
        if self._aside_since is not None:
            away, self._aside_since = now - self._aside_since, None
            self._aside_seconds += away
            self._marks = deque((at + away, marked) for at, marked in self._marks)
        self._step = step
        self._marks.append((now, step))
        while len(self._marks) > 2 and self._marks[1][0] <= now - _SECONDS:
            self._marks.popleft()

    @property
    def seconds_left(self) -> float | None:
        """Return the seconds left at the speed of the last minute; None: not known yet.

        With what goes aside on the way, as it did until now.
        """
        if len(self._marks) < 2 or self._marks[-1][1] <= self._marks[0][1]:
            return None
        (start, first), (end, last) = self._marks[0], self._marks[-1]
        aside = self._aside_seconds / max(1, self._step - self._start)
        left = max(0, self._total - self._step) + self._later
        return ((end - start) / (last - first) + aside) * left
