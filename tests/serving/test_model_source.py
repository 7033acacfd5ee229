"""Models of the command line: names, folders of models, and options that do not exist."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bert_keras.errors import UsageError
from bert_keras.serving.model_source import Options, model_argument, open_model


def write(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "saved_model.pb").touch()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("saved_models/reviews", "reviews"),
        ("other=saved_models/reviews", "other"),
        ("hf://somebody/mini-lm@main", "mini-lm"),
        ("a.b=x", "a.b"),
    ],
)
def test_the_name_of_a_model(text: str, name: str) -> None:
    assert model_argument(text)[0] == name


def test_the_name_of_a_version_is_that_of_its_model(tmp_path: Path) -> None:
    write(tmp_path / "reviews" / "1")
    assert model_argument(str(tmp_path / "reviews" / "1"))[0] == "reviews"
    with pytest.raises(UsageError, match="NAME="):
        model_argument(str(tmp_path / "my reviews"))


def test_a_folder_of_models_names_them(tmp_path: Path) -> None:
    write(tmp_path / "reviews" / "1")
    write(tmp_path / "other" / "2")
    with pytest.raises(UsageError, match=f"other, reviews. Name one: .*{tmp_path}/other"):
        open_model(str(tmp_path), Options())


def test_a_checkpoint_with_an_export_inside_is_opened(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    shutil.copytree(folders["labels"], tmp_path / "labels")
    write(tmp_path / "labels" / "exported")
    assert open_model(str(tmp_path / "labels"), Options()).task == "text_classification"


@pytest.mark.parametrize(
    ("options", "words"),
    [(Options(device="gpu:77"), "`device` must be"), (Options(dtype="bflot16"), "dtype")],
)
def test_an_option_that_does_not_exist_is_a_usage_error(
    folders: dict[str, Path], options: Options, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        open_model(str(folders["labels"]), options)
