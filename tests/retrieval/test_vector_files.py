"""Rows in a file are computed once, whatever ends the process meanwhile."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_keras.errors import ArtifactError, ResourceError
from bert_keras.file_io import one_writer
from bert_keras.retrieval.vector_files import digest_of, stored_rows

ROWS = np.random.default_rng(0).standard_normal((23, 5)).astype(np.float16)


class Compute:
    """Function that returns rows, and is killed at a block."""

    def __init__(self, killed_at: int = 99):
        self.calls: list[tuple[int, int]] = []
        self._killed_at = killed_at

    def __call__(self, start: int, end: int) -> np.ndarray:
        if len(self.calls) == self._killed_at:
            raise KeyboardInterrupt
        self.calls.append((start, end))
        return ROWS[start:end]


@pytest.mark.parametrize("cut", [0, 3, 1000])
@pytest.mark.parametrize("killed_at", [0, 1, 3])
def test_an_unfinished_file_goes_on(tmp_path: Path, killed_at: int, cut: int) -> None:
    """Rows of a block that is not whole are computed again, and so is a file without a header."""
    path, first, second = tmp_path / "a" / "rows.npy", Compute(killed_at), Compute()
    with pytest.raises(KeyboardInterrupt):
        stored_rows(path, 23, first, block=4)
    assert not path.exists()
    part = path.with_name("rows.npy.part")
    with part.open("r+b") as file:  # killed while it wrote
        file.truncate(max(0, part.stat().st_size - cut))
    progress: list[tuple[int, int]] = []
    found = stored_rows(path, 23, second, block=4, progress=lambda *done: progress.append(done))
    np.testing.assert_array_equal(found, ROWS)
    assert found.dtype == np.float16
    assert isinstance(found, np.memmap)
    whole = 0 if cut == 1000 else killed_at - (cut > 0)
    assert second.calls[0] == (4 * max(0, whole), 4 * max(0, whole) + 4)
    assert progress[-1] == (23, 23)
    assert [file.name for file in path.parent.iterdir()] == ["rows.npy"]
    again = Compute(0)
    np.testing.assert_array_equal(stored_rows(path, 23, again, block=4), ROWS)
    assert again.calls == []


def test_a_file_of_others(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    stored_rows(path, 23, Compute())
    with pytest.raises(ArtifactError, match=r"expected 24 rows. Received: shape \(23, 5\)"):
        stored_rows(path, 24, Compute())
    path.write_bytes(b"\x93NUMPY")
    with pytest.raises(ArtifactError, match="damaged"):
        stored_rows(path, 23, Compute())
    with one_writer(tmp_path / "b.npy"), pytest.raises(ResourceError, match="another process"):
        stored_rows(tmp_path / "b.npy", 23, Compute())


TEXTS = st.lists(st.text(max_size=3), max_size=3)


@given(TEXTS, TEXTS)
def test_digests_differ_where_texts_do(first: list[str], second: list[str]) -> None:
    assert (digest_of("a", first) == digest_of("a", second)) == (first == second)
    assert digest_of(first, second) != digest_of([*first, *second], []) or not second
