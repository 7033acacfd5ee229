"""The program `prepare`: its corpus, its output, and its error messages."""

from __future__ import annotations

import errno
import gzip
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bert_keras import Tokenizer
from bert_keras.data import Corpus, read, split_of
from bert_keras.errors import DataError, ResourceError, UsageError
from bert_keras.training import prepare as program
from bert_keras.training.prepare import DEFAULTS, changes, main, prepare

_REPO = Path(__file__).parents[2]
_STORE = ["documents.bin", "manifest.json", "sentences.bin", "tokens.bin"]
_PRESET = ["special_tokens_map.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Return a text of 100 documents; one word is in a validation document only."""
    documents = [f"The cat number {i} sat. It purred, and then it slept.\n" for i in range(100)]
    documents[51] += "Zyzzyva zyzzyva zyzzyva.\n" * 50
    (tmp_path / "text.txt").write_text("\n".join(documents))
    return tmp_path / "text.txt"


def _run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bert_keras.training.prepare", *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "100"}
    return subprocess.run(
        command, cwd=_REPO, env=environment, capture_output=True, text=True, check=False
    )


def test_the_program(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "corpus"
    run = _run(
        f"corpus={text}", f"out={out}", "vocab_size=60", "workers=2", "validation_split=0.02"
    )
    assert run.returncode == 0, run.stderr
    assert sorted(path.name for path in out.iterdir()) == sorted(["held_out", "train", *_PRESET])
    for name, documents in (("train", 98), ("held_out", 2)):
        assert sorted(path.name for path in (out / name).iterdir()) == _STORE
        assert Corpus.open(out / name, verify=True).num_documents == documents
    for expected in ("98", "2", "sentences", "[UNK] share", "MB/s with workers=2", "peak memory"):
        assert expected in run.stdout
    assert "vocabulary: done in" in run.stderr
    assert "corpus: done in" in run.stderr
    again = _run(f"corpus={text}", f"out={out}")
    assert again.returncode == 2
    assert (
        again.stderr
        == f"error: {out}: the folder holds a corpus already. Name another folder, or pass "
        "overwrite=true to replace the corpus.\n"
    )


def test_the_vocabulary_is_learned_from_the_documents_to_train_on(
    text: Path, tmp_path: Path
) -> None:
    made = prepare(
        corpus=str(text), out=tmp_path / "c", vocab_size=60, validation_split=0.02, workers=1
    )
    tokenizer = Tokenizer.from_preset(tmp_path / "c")
    assert tokenizer.vocab_size == 60
    assert "z" not in "".join(tokenizer.vocabulary).replace("##", "")
    assert made.corpora["train"].manifest["counts"]["unknown_tokens"] == 0
    assert made.corpora["validation"].manifest["counts"]["unknown_tokens"] == 150
    documents = [d for i, d in enumerate(read(text)) if split_of(i, 0.02) == "train"]
    assert tokenizer == Tokenizer.train(documents, vocab_size=60)


@pytest.mark.parametrize("lowercase", [True, False])
def test_a_vocabulary_that_is_given(text: Path, tmp_path: Path, lowercase: bool) -> None:
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", "The", "the", "\u2028x"]
    (tmp_path / "mine.vocab").write_text("\n".join(pieces) + "\n", newline="\n", encoding="utf-8")
    values = [f"corpus={text}", "workers=1", f"lowercase={lowercase}"]
    main([*values, f"out={tmp_path / 'c'}", f"vocab={tmp_path / 'mine.vocab'}"])
    tokenizer = Tokenizer.from_preset(tmp_path / "c")
    assert tokenizer == Tokenizer(pieces, lowercase=lowercase)
    first = Corpus.open(tmp_path / "c" / "train").tokens[:2].tolist()
    assert first == [7 if lowercase else 6, 5]
    # A tokenizer folder defines lowercasing itself.
    main([*values[:2], f"out={tmp_path / 'd'}", f"vocab={tmp_path / 'c'}"])
    assert Tokenizer.from_preset(tmp_path / "d") == tokenizer


def test_layouts_languages_and_fields(tmp_path: Path) -> None:
    lines = "".join(f'{{"body": "你好{i}。再见！"}}\n' for i in range(10))
    (tmp_path / "zh.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    values = [f"corpus={tmp_path}/*.gz", "field=body", "vocab_size=20", "workers=1"]
    for layout, sentences in (("text", 18), ("sentences", 9)):
        main([*values, "language=zh", f"layout={layout}", f"out={tmp_path / layout}"])
        assert Corpus.open(tmp_path / layout / "train").num_sentences == sentences


def test_overwrite(text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = [f"corpus={text}", f"out={tmp_path / 'c'}", "workers=1", "vocab_size=60"]
    main([*values, "validation_split=0"])
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == sorted(["train", *_PRESET])
    assert "validation" not in capsys.readouterr().out
    main([*values, "overwrite=true"])
    assert (tmp_path / "c" / "held_out").is_dir()


def _bad(*arguments: str) -> list[str]:
    return ["corpus={text}", "out={tmp}/new", "workers=1", *arguments]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ([], UsageError, "corpus= is missing"),
        (["corpus={text}"], UsageError, "out= is missing"),
        (_bad("vocab_sise=100"), UsageError, "Did you mean 'vocab_size'"),
        (_bad("vocab_size=many"), UsageError, "vocab_size must be a whole number"),
        (_bad("vocab_size=5"), UsageError, r"vocab_size` must be more than.*vocab_size=5$"),
        (_bad("model=bpe", "vocab_size=260"), UsageError, r"model=bpe: .* at least 261.*=260$"),
        (_bad("model=words"), UsageError, r"^model=words: `model` must be one of wordpiece, bpe"),
        (_bad("model=bpe", "vocab={text}"), UsageError, r"text\.txt\. Leave model= out"),
        (_bad("tokenizer_model=bpe"), UsageError, r"Known keys: .*\bmodel,"),
        (
            _bad("validation_split=0.6"),
            UsageError,
            "validation_split must be from 0 to 0.5. Received: validation_split=0.6",
        ),
        (_bad("validation_split=nan"), UsageError, "validation_split must be"),
        (_bad("layout=lines"), UsageError, "layout must be one of text, sentences. Received"),
        (["corpus={text}", "out={tmp}/new", "workers=0"], UsageError, "workers must be at least 1"),
        (["corpus={text}", "out={tmp}"], UsageError, "the folder for a corpus must be new"),
        (["corpus={text}", "out={text}"], UsageError, "the folder for a corpus must be new"),
        (_bad("vocab={tmp}/none.txt"), UsageError, r"none\.txt: no such file"),
        (_bad("vocab={text}"), DataError, r"text\.txt:\d+: "),
        (_bad("vocab={tmp}/latin.txt"), DataError, r"latin\.txt:2: not UTF-8"),
        (_bad("vocab_size=100_000"), DataError, "gives at most"),
        (["corpus={tmp}/none.txt", "out={tmp}/new"], DataError, "no such file"),
        (["corpus={tmp}/latin.txt", "out={tmp}/new"], DataError, r"latin\.txt:2: not UTF-8"),
        (["corpus={tmp}/empty.txt", "out={tmp}/new"], DataError, r"empty\.txt: no text"),
        (
            ["corpus={tmp}/folder", "out={tmp}/new"],
            DataError,
            "folder: the folder has no text files",
        ),
        (["corpus={tmp}/*.gz", "out={tmp}/new"], DataError, "no file matches"),
        (
            ["corpus={tmp}/one.txt", "out={tmp}/new", "vocab_size=10"],
            DataError,
            "No document with text is left for the split 'validation'. Received: 1 documents",
        ),
    ],
)
def test_refusals(
    text: Path, tmp_path: Path, arguments: list[str], error: type[Exception], message: str
) -> None:
    (tmp_path / "latin.txt").write_bytes(b"good\nna\xefve\n")
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "one.txt").write_text("aab ab aba.")
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(error, match=message):
        main([argument.format(text=text, tmp=tmp_path) for argument in arguments])
    assert sorted(tmp_path.iterdir()) == before


def test_a_text_that_changes_after_the_vocabulary_is_refused(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(documents: Any, **options: Any) -> Tokenizer:
        """Learn a vocabulary; then another process writes the text, with the same size."""
        made = learn(documents, **options)
        text.write_bytes(text.read_bytes())
        return made

    learn = Tokenizer.train
    monkeypatch.setattr(program.Tokenizer, "train", train)
    with pytest.raises(DataError, match=f"{text}: changed after the vocabulary was learned"):
        prepare(corpus=str(text), out=tmp_path / "c", vocab_size=60)
    assert not (tmp_path / "c").exists()


def test_a_place_that_cannot_be_written_is_refused_before_the_text_is_read(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(**_: Any) -> Any:
        """Stand in for a disk that is mounted read-only."""
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("tempfile.TemporaryFile", read_only)
    monkeypatch.setattr(program.data, "read", lambda *_, **__: pytest.fail("the text is read"))
    refused = f"cannot be written: Read-only file system: {tmp_path}"
    with pytest.raises(ResourceError, match=refused):
        prepare(corpus=str(text), out=tmp_path / "new" / "c")


def test_exit_codes(tmp_path: Path) -> None:
    bad_text = _run(f"corpus={tmp_path}", f"out={tmp_path / 'c'}")
    assert (bad_text.returncode, bad_text.stdout) == (3, "")
    assert bad_text.stderr.endswith("takes any ending.\n")
    assert "Traceback" not in bad_text.stderr


def test_the_help_names_every_key() -> None:
    run = _run("--help")
    assert run.returncode == 0
    for key, value in DEFAULTS.items():
        default = str(value).lower().replace("_", "")
        assert f"    {key}={default} " in run.stdout


def test_keras_is_not_needed() -> None:
    code = (
        "import sys, bert_keras.training.prepare; "
        "sys.exit({'keras', 'tensorflow'} & {*sys.modules} != set())"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=_REPO, check=False).returncode == 0


def test_changes_of_a_text_since_it_was_prepared(text: Path, tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    for name in ("same", "longer", "gone", "later"):
        (folder / f"{name}.txt").write_bytes(text.read_bytes())
    prepare(corpus=str(folder), out=tmp_path / "c", vocab_size=60)
    assert changes(str(folder), tmp_path / "c") == []
    (folder / "gone.txt").unlink()
    size = text.stat().st_size
    (folder / "longer.txt").write_bytes(text.read_bytes() + b"More.\n")
    (folder / "new.txt").write_text("New.\n")
    os.utime(folder / "later.txt", (2**31, 2**31))
    assert changes(str(folder), tmp_path / "c") == [
        f"{folder}/gone.txt is gone",
        f"{folder}/later.txt was written since",
        f"{folder}/longer.txt had {size:,} bytes, and has {size + 6:,} now",
        f"{folder}/new.txt is new",
    ]
    with pytest.raises(DataError, match="no such file"):
        changes(str(tmp_path / "nothing"), tmp_path / "c")


def test_what_to_do_about_unknown_words() -> None:
    """A vocabulary that was just learned from the text need not be learned again."""
    assert "learn one from it" in program.vocabulary_cure("model", is_learned=False)
    cure = program.vocabulary_cure("tokenizer_model", is_learned=True)
    assert "larger vocab_size=, or tokenizer_model=bpe" in cure
