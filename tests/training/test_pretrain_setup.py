"""Preparation of a pretraining: corpora, and losses of a model of token frequencies."""

from __future__ import annotations

import dataclasses
import math
import shutil
from pathlib import Path

import numpy as np
import pytest

from bert_keras.data import demo_corpus
from bert_keras.errors import ArtifactError, DataError, UsageError
from bert_keras.training import pretrain_setup
from bert_keras.training.prepare import prepare
from bert_keras.training.pretrain_recipe import PretrainRecipe, load_recipe
from bert_keras.training.pretrain_setup import (
    TrainingCorpora,
    check_validation_split,
    evaluation_batches,
    open_corpora,
)
from bert_keras.training.run_folder import PretrainFolder
from tests.training.conftest import sentences


def test_entropy_of_known_frequencies() -> None:
    ids = np.array([5, 5, 6, 7, 0, 1, 1, 1], np.uint16)  # 0 and 1 are ids of special tokens

    expected = -(0.5 * math.log(0.5) + 2 * 0.25 * math.log(0.25))
    assert pretrain_setup.entropy(ids, (0, 1)) == pytest.approx(expected)
    assert pretrain_setup.entropy(np.full(10, 3), ()) == 0.0
    assert pretrain_setup.entropy(np.arange(100), (100,)) == pytest.approx(math.log(100))


def test_cross_entropy_under_smoothed_training_frequencies() -> None:
    train = np.array([2, 2, 3, 0], np.int32)
    validation = np.array([2, 4, 1], np.int32)  # 4 is not among the training tokens

    # Smoothed frequencies of the ids 2, 3 and 4: (2 + 1) / 6, (1 + 1) / 6, (0 + 1) / 6.
    expected = -(math.log(3 / 6) + math.log(1 / 6)) / 2
    assert pretrain_setup.cross_entropy(train, validation, (0, 1), 5) == pytest.approx(expected)


def test_cross_entropy_is_never_below_the_entropy() -> None:
    rng = np.random.default_rng(0)
    train, validation = rng.zipf(1.5, (2, 5_000)) % 50
    entropy = pretrain_setup.entropy(validation, (0, 1))

    assert pretrain_setup.cross_entropy(train, validation, (0, 1), 50) > entropy
    assert pretrain_setup.cross_entropy(validation, validation, (0, 1), 50) == pytest.approx(
        entropy, abs=0.01
    )


def test_a_corpus_is_counted_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = np.random.default_rng(0).integers(0, 30, 1_000).astype(np.uint16)
    whole = pretrain_setup.entropy(ids, (0,))
    monkeypatch.setattr(pretrain_setup, "_CHUNK", 7)

    assert pretrain_setup.entropy(ids, (0,)) == whole


@pytest.mark.parametrize("ids", [[], [0, 1, 0]])
def test_no_real_token_is_an_error(ids: list[int]) -> None:
    with pytest.raises(ValueError, match=f"Received: {len(ids)} token ids"):
        pretrain_setup.entropy(np.array(ids, np.int32), (0, 1))


def test_log_shares_are_a_distribution_over_the_tokens_that_are_not_special() -> None:
    shares = np.exp(pretrain_setup.log_shares(np.array([2, 2, 3, 0], np.int32), (0, 1), 5))

    assert shares == pytest.approx([0, 0, 3 / 6, 2 / 6, 1 / 6])


# === Corpora of a run


@pytest.fixture
def recipe(tiny: str, tmp_path: Path) -> PretrainRecipe:
    return dataclasses.replace(load_recipe(tiny), out=str(tmp_path / "run"))


@pytest.fixture(scope="module")
def prepared(text_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared") / "corpus"
    prepare(
        corpus=str(text_file),
        out=folder,
        layout="sentences",
        vocab_size=250,
        validation_split=0.1,
        workers=1,
    )
    return folder


def _open(recipe: PretrainRecipe, **values: object) -> TrainingCorpora:
    recipe = dataclasses.replace(recipe, **values)
    return open_corpora(recipe, PretrainFolder(recipe))


def test_prepared_into_the_folder_once(recipe: PretrainRecipe, text_file: Path) -> None:
    first = _open(recipe)
    assert first.train.directory == PretrainFolder(recipe).corpus / "train"
    assert (first.train.num_documents, first.validation.num_documents) == (16, 4)
    assert first.tokenizer.vocab_size == recipe.vocab_size
    again = _open(recipe, corpus=str(text_file.with_name("removed since.txt")))
    assert again.train.fingerprint == first.train.fingerprint


def test_a_demo_corpus_does_not_name_its_folder(
    recipe: PretrainRecipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest of the demo corpus has no path, which could contain the home folder."""
    for module in (demo_corpus, pretrain_setup):
        monkeypatch.setattr(module, "demo_documents", lambda: [sentences(1).splitlines()] * 20)
    corpora = _open(recipe, corpus="demo", vocab_size=100)
    for corpus in (corpora.train, corpora.validation):
        assert [file["name"] for file in corpus.manifest["origin"]["files"]] == ["demo.txt"]


def test_text_that_has_changed_is_prepared_again(
    recipe: PretrainRecipe, text_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After the first checkpoint the run keeps its tokens, and names the file that changed."""
    text = tmp_path / "mine.txt"
    shutil.copy(text_file, text)
    first = _open(recipe, corpus=str(text))
    text.write_text(text_file.read_text() + "\nOne more document.\nIt is short.\n")
    second = _open(recipe, corpus=str(text))
    assert second.train.num_documents == first.train.num_documents + 1
    PretrainFolder(recipe).training.checkpoints.mkdir()
    size = text.stat().st_size
    capsys.readouterr()
    assert _open(recipe, corpus=str(text)).fingerprint == second.fingerprint
    assert capsys.readouterr().err == ""
    text.write_text(text_file.read_text())
    assert _open(recipe, corpus=str(text)).fingerprint == second.fingerprint
    told = f"{text} had {size:,} bytes, and has {text.stat().st_size:,} now. The run goes on"
    assert told in capsys.readouterr().err
    text.unlink()
    assert _open(recipe, corpus=str(text)).fingerprint == second.fingerprint
    assert f"note: the text of corpus={text} is gone. The run" in capsys.readouterr().err


def test_a_folder_of_text_that_is_called_train(
    recipe: PretrainRecipe, text_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "wiki" / "train").mkdir(parents=True)
    shutil.copy(text_file, tmp_path / "wiki" / "train")
    assert not _open(recipe, corpus=str(tmp_path / "wiki")).is_prepared


def test_the_home_folder(
    recipe: PretrainRecipe, prepared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(prepared.parent))
    assert _open(recipe, corpus=f"~/{prepared.name}").train.directory == prepared / "train"


def test_a_damaged_prepared_corpus(recipe: PretrainRecipe, prepared: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(prepared, tmp_path / "corpus")
    tokens = folder / "train" / "tokens.bin"
    tokens.write_bytes(b"\x01" + tokens.read_bytes()[1:])
    with pytest.raises(ArtifactError, match=r"tokens\.bin: the sha256"):
        _open(recipe, corpus=str(folder))


def test_ids_that_the_vocabulary_has_not(
    recipe: PretrainRecipe, prepared: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(prepared, tmp_path / "corpus")
    vocabulary = (folder / "vocab.txt").read_text().splitlines()[:100]
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ArtifactError, match=r"train: holds the token id \d+, .* has 100 entries"):
        _open(recipe, corpus=str(folder))


def test_a_prepared_corpus_is_used_in_place(recipe: PretrainRecipe, prepared: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in prepared.rglob("*")}
    corpora = _open(recipe, corpus=str(prepared))
    assert corpora.train.directory == prepared / "train"
    assert corpora.validation.num_documents == 2
    assert corpora.tokenizer.vocab_size == 250
    assert not Path(recipe.out).exists()
    assert {path: path.stat().st_mtime_ns for path in prepared.rglob("*")} == before


def test_a_prepared_corpus_without_validation_documents(
    recipe: PretrainRecipe, prepared: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(prepared, tmp_path / "corpus")
    shutil.rmtree(folder / "held_out")
    with pytest.raises(UsageError, match="prepared with validation_split=0"):
        _open(recipe, corpus=str(folder))


def test_the_examples_are_what_the_recipe_wants(recipe: PretrainRecipe, prepared: Path) -> None:
    corpora = _open(recipe, corpus=str(prepared))
    recipe = dataclasses.replace(
        recipe, loss="sop", masking="span", max_predictions_per_seq=3, seed=7
    )
    examples = corpora.examples(recipe)
    assert examples.corpus is corpora.train
    assert corpora.examples(recipe, validation=True).corpus is corpora.validation
    x, y, _ = examples.batch(0, 0)
    assert x["token_ids"].shape == (recipe.batch_size, recipe.sequence_length)
    assert y["mlm"].shape == (recipe.batch_size, 3)
    assert set(y) == {"mlm", "sop"}


def test_too_little_validation_text_is_named(recipe: PretrainRecipe, prepared: Path) -> None:
    corpora = _open(recipe, corpus=str(prepared))
    one = dataclasses.replace(corpora, validation=type(corpora.train).from_ids([[[9, 9]]]))
    with pytest.raises(DataError, match=r"^1 documents of validation_split=: "):
        one.examples(recipe, validation=True)


def test_validation_text_smaller_than_a_batch(recipe: PretrainRecipe, prepared: Path) -> None:
    """Validation text may give a smaller batch; training text must give a whole one."""
    corpora = _open(recipe, corpus=str(prepared))
    large = dataclasses.replace(recipe, batch_size=10_000)
    validation = corpora.examples(large, validation=True)
    count = len(corpora.examples(recipe, validation=True).plan(0))
    assert validation.batch_size == count == len(validation.batch(0, 0)[0]["token_ids"])
    assert evaluation_batches(large, validation) == 1
    with pytest.raises(DataError, match=r"^18 documents to train on: .* fewer examples than one"):
        corpora.examples(large)


@pytest.mark.parametrize(
    ("documents", "loss", "needed"),
    [(1, "mlm", 1), (1, "nsp", 2), (4, "nsp", 2), (0, "mlm", 1)],
)
def test_too_few_validation_documents(
    recipe: PretrainRecipe, tmp_path: Path, documents: int, loss: str, needed: int
) -> None:
    """Too few documents are an error before sentences are split and a vocabulary is learned."""
    text = tmp_path / "few.txt"
    text.write_text("A sentence.\nOne more.\n\n" * documents)
    values = {
        "corpus": str(text),
        "loss": loss,
        "validation_split": 0.2,
        "layout": "text",
    }
    changed = dataclasses.replace(recipe, **values)
    message = rf"needs {needed} validation documents" if documents else "no text"
    with pytest.raises(DataError, match=message):
        check_validation_split(changed)
    with pytest.raises(DataError, match=message):
        _open(recipe, **values)
    assert not PretrainFolder(recipe).corpus.exists()


def test_enough_validation_documents(
    recipe: PretrainRecipe, prepared: Path, tmp_path: Path
) -> None:
    check_validation_split(recipe)
    check_validation_split(dataclasses.replace(recipe, corpus="demo", validation_split=0.02))
    check_validation_split(dataclasses.replace(recipe, corpus=str(prepared)))
    folder = shutil.copytree(prepared, tmp_path / "corpus")
    shutil.rmtree(folder / "held_out")
    with pytest.raises(UsageError, match="prepared with validation_split=0"):
        check_validation_split(dataclasses.replace(recipe, corpus=str(folder)))


def test_how_much_is_evaluated(recipe: PretrainRecipe, prepared: Path) -> None:
    validation = _open(recipe, corpus=str(prepared)).examples(recipe, validation=True)
    few = dataclasses.replace(recipe, eval_examples=recipe.batch_size + 1)
    assert evaluation_batches(few, validation) == 2
    many = dataclasses.replace(recipe, eval_examples=10**6)
    assert evaluation_batches(many, validation) == validation.num_batches(0)
