"""A vocab.txt, line by line; what is refused is in `test_files`."""

from __future__ import annotations

from bert_keras.tokenizers.vocabulary_files import read_vocabulary
from tests.tokenizers.samples import VOCABULARY


def test_lines_are_ids(tmp_path):
    path = tmp_path / "words.txt"
    for end in ("\n", "\r\n"):
        path.write_bytes(end.join(VOCABULARY).encode())
        assert read_vocabulary(path) == list(VOCABULARY)
