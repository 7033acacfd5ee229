"""Folders of runs: where everything lies, and whose it is.

runs/<name>/
    run.json         the recipe's values and the backend, which bind once training began; versions
    corpus/          the token store and the vocabulary, unless the recipe names a prepared one
    checkpoints/     the last two training checkpoints
    metrics.jsonl    one line per report: the same bytes however often the run was interrupted
    speed.jsonl      one line per report: what depends on the machine
    report.md, loss.png
    exported.json    where the SavedModel is
    config.json, model.safetensors, vocab.txt, …   the trained model, a checkpoint folder
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from bert_keras import file_io, presets
from bert_keras.checkpoints import open_checkpoint
from bert_keras.errors import ArtifactError, UsageError
from bert_keras.training.finetune_recipe import FinetuneRecipe
from bert_keras.training.pretrain_recipe import PretrainRecipe
from bert_keras.training.recipe_base import renamed

# Values that change nothing that is computed: they may differ whenever a run goes on.
_FREE = ("workers", "tensorboard", "export", "out")
# Values that make the corpus: before the first checkpoint, only these bind, once it is made.
TEXT_VALUES = (
    *("corpus", "layout", "language", "field", "validation_split"),
    *("vocab", "vocab_size", "lowercase"),
)
_OURS = ("LOCK", "corpus")  # what a folder without run.json may hold


class RunFolder:
    """The paths of a run.

    Args:
        recipe: whose `out` or `name` gives the folder.
        temporary: a temporary folder in its place, which no file of the run names.
    """

    def __init__(self, recipe: PretrainRecipe, temporary: str = ""):
        self.given = Path(temporary or recipe.out or f"runs/{recipe.name}")  # "~" is not expanded
        self.path = file_io.expanded(self.given)
        self.run = self.path / "run.json"
        self.corpus = self.path / "corpus"
        self.checkpoints = self.path / "checkpoints"
        self.metrics = self.path / "metrics.jsonl"
        self.speed = self.path / "speed.jsonl"
        self.report = self.path / "report.md"
        self.picture = self.path / "loss.png"
        self.weights = self.path / "model.safetensors"
        self.exported = self.path / "exported.json"

    def check(self) -> None:
        """Looks whether the folder is, or may become, one of a run; leaves it as it is.

        Raises:
            UsageError: it is something else.
        """
        require_run_folder(self.path, _OURS)
        if self.run.exists():
            self._read()

    def claim(self, recipe: PretrainRecipe, backend: str, versions: dict[str, str]) -> None:
        """Writes run.json, or checks that the run found here is this one.

        Raises:
            UsageError: the folder holds another run, or something else.
        """
        self.check()
        self.require_same(recipe, backend)
        if not self.checkpoints.exists():
            values = dataclasses.asdict(recipe)
            sizes = _sizes(recipe)
            card = {"recipe": values, "sizes": sizes, "backend": backend, "versions": versions}
            file_io.write_json(self.run, card)

    def require_same(self, recipe: PretrainRecipe, backend: str) -> None:
        """Check that a run which is begun in this folder is that of a recipe.

        Raises:
            UsageError: the folder holds another run.
        """
        values, sizes = dataclasses.asdict(recipe), _sizes(recipe)
        is_trained = self.checkpoints.exists()
        if self.run.exists():
            before = self._read()
            binding = values if is_trained else TEXT_VALUES if self.corpus.exists() else ()
            changed = [
                f"  {name}: {before['recipe'].get(name)!r} then, {values[name]!r} now"
                for name in binding
                if name not in _FREE and before["recipe"].get(name) != values[name]
            ]
            if is_trained and before["backend"] != backend:
                changed.append(f"  backend: {before['backend']} then, {backend} now")
            if is_trained and sizes and before["sizes"] not in (None, sizes):
                changed.append(f"  config: {recipe.config} holds other sizes than then")
            require_unchanged(self.path, changed)

    def _read(self) -> dict[str, Any]:
        try:
            card = file_io.read_json(self.run)
            found = {
                "recipe": renamed(card["recipe"]),
                "backend": card["backend"],
                "sizes": card.get("sizes"),
            }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(
                f"{self.run} cannot be read ({error!r}). Choose another folder with out=FOLDER."
            ) from error
        if "corpus" not in found["recipe"]:
            raise UsageError(
                f"{self.run} is not of a pretraining run. Choose another folder with out=FOLDER."
            )
        return found


def _sizes(recipe: PretrainRecipe) -> dict[str, Any] | None:
    return None if recipe.init_checkpoint else recipe.sizes().to_dict()


def require_run_folder(path: Path, ours: Collection[str]) -> None:
    """Looks whether a folder is, or may become, one of a run; `ours`: what it may hold before.

    Raises:
        UsageError: it is something else.
    """
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is a file. Choose a folder with out=FOLDER.")
    # A process killed while it wrote run.json leaves a temporary file.
    names = sorted(item.name for item in path.glob("*"))
    strangers = [name for name in names if name not in ours and not name.startswith(".tmp-")]
    if strangers and not (path / "run.json").exists():
        raise UsageError(
            f"{path} is not the folder of a run: it has no run.json but "
            f"{', '.join(strangers[:5])}. Choose another with out=FOLDER."
        )


def require_unchanged(path: Path, changed: Sequence[str]) -> None:
    """Refuses to go on with a run by other values; `changed`: a line for each of them.

    Raises:
        UsageError: there are some.
    """
    if changed:
        raise UsageError(
            f"{path} holds a run with other values:\n" + "\n".join(changed) + "\n"
            "Give the same values to go on with it, or out=FOLDER for a new run."
        )


# === Folder of a fine-tuning run ===
# runs/<name>/
#     run.json               the recipe's values, the backend and the sha256 of examples and of the
#                            models named, which bind once training began; versions
#     .quicktest/            made-up examples and models, where --quicktest was given a folder
#     seed-<n>/              checkpoints/, metrics.jsonl, speed.jsonl, best/, result.json
#     report.md, curve.png, confusion.png
#     predictions.<form>     of the best seed on dev
#     metrics.json           its seed and metrics
#     config.json, model.safetensors, vocab.txt, predictor.json, …   the best model, a checkpoint
#                            folder that `Predictor.from_preset` opens


QUICKTEST = ".quicktest"  # what --quicktest makes up
_FINETUNING_FILES = ("LOCK", QUICKTEST)  # what a folder without run.json may hold
# What a model and its tokenizer are read from; beside them a run may have reports, which change.
_MODEL = (
    *("*.safetensors", "*.h5", "*.bin", "*.ckpt*", "*.model", "*.txt", "*config.json"),
    *("bert_keras.json", "vocab.json", "tokenizer.json"),
)
# Values that change nothing that is computed.
_FREE_IN_FINETUNING = ("workers", "out", "seeds", "checkpoint_every")


class FinetuneFolder:
    """The paths of a run.

    Args:
        recipe: whose `out` or `name` gives the folder.
        temporary: a temporary folder in its place, which no file of the run names.
    """

    def __init__(self, recipe: FinetuneRecipe, temporary: str = ""):
        self._temporary = temporary
        self.given = Path(temporary or recipe.out or f"runs/{recipe.name}")  # "~" is not expanded
        self.path = file_io.expanded(self.given)
        self.run = self.path / "run.json"
        self.report = self.path / "report.md"
        self.curve = self.path / "curve.png"
        self.confusion = self.path / "confusion.png"
        self.metrics = self.path / "metrics.json"

    def of_seed(self, seed: int) -> Path:
        """Return the folder of a seed's files."""
        return self.path / f"seed-{seed}"

    def values(self, recipe: FinetuneRecipe) -> dict[str, Any]:
        """Return a recipe's values as the run's files show them.

        Paths in a temporary folder are relative to it.
        """
        values = dataclasses.asdict(recipe)
        if self._temporary:
            inside = f"{self._temporary}/"
            texts = {name: value for name, value in values.items() if isinstance(value, str)}
            values |= {name: text.removeprefix(inside) for name, text in texts.items()}
        return values

    def check(self) -> None:
        """Looks whether the folder is, or may become, one of a run; leaves it as it is.

        Raises:
            UsageError: it is something else.
        """
        require_run_folder(self.path, _FINETUNING_FILES)
        try:
            recipe_of(self.path)
        except ArtifactError as error:
            raise UsageError(f"{error}. Choose another folder with out=FOLDER.") from error

    def claim(self, recipe: FinetuneRecipe, backend: str, versions: dict[str, str]) -> None:
        """Writes run.json, or checks that the run found here is this one.

        Raises:
            UsageError: the folder holds another run.
        """
        self.check()
        files = self.require_same(recipe, backend)
        card = {
            "recipe": self.values(recipe),
            "backend": backend,
            "files": files,
            "versions": versions,
        }
        file_io.write_json(self.run, card)

    def require_same(self, recipe: FinetuneRecipe, backend: str) -> dict[str, dict[str, str]]:
        """Check that a run which is begun in this folder is that of a recipe.

        Returns:
            The digests of the files that the recipe names.

        Raises:
            UsageError: the folder holds another run.
        """
        values, files = self.values(recipe), _digests(recipe)
        files_then: dict[str, dict[str, str]] = {}
        # Whoever mistyped a value corrects it, as long as nothing was done with it.
        if self.run.exists() and self._is_begun():
            before = file_io.read_object(self.run)
            told, known = before.get("recipe"), dataclasses.asdict(FinetuneRecipe(task=recipe.task))
            told = known | (
                renamed(told) if isinstance(told, dict) else {}
            )  # older ones know fewer values
            found = before.get("files") or {}
            files_then = {name: each for name, each in found.items() if isinstance(each, dict)}
            changed = [
                f"  {name}: {told[name]!r} then, {value!r} now"
                for name, value in values.items()
                if name not in _FREE_IN_FINETUNING and told[name] != value
            ]
            changed += [
                f"  {name}: {getattr(recipe, name)} holds something else than then ({file})"
                for name, digests in files.items()
                for file, digest in digests.items()
                if files_then.get(name, {}).get(file, digest) != digest
            ]
            if before.get("backend") != backend:
                changed.append(f"  backend: {before.get('backend')} then, {backend} now")
            require_unchanged(self.path, changed)
        # One that is missing now is known all the same.
        return {name: files_then.get(name, {}) | files.get(name, {}) for name in files_then | files}

    def _is_begun(self) -> bool:
        return any(any(self.path.glob(f"seed-*/{name}")) for name in ("checkpoints", "result.json"))


def _digests(recipe: FinetuneRecipe) -> dict[str, dict[str, str]]:
    """Of what is read anew when a run goes on: the examples, and other models."""
    found = {}
    for name in ("train", "dev", "encoder", "teacher"):
        handle = getattr(recipe, name)
        if not handle:
            continue
        is_remote = "://" in handle or presets.is_preset(handle)  # a repository's local copy
        path = open_checkpoint(handle).directory if is_remote else file_io.expanded(handle)
        files = [path] if name in ("train", "dev") else sorted(_files(path))
        # Whoever reads a file tells that it is missing.
        digests = {file.name: _sha256(file) for file in files if file.is_file()}
        if digests:
            found[name] = digests
    return found


def _files(folder: Path) -> set[Path]:
    return {path for form in _MODEL for path in folder.glob(form)}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_pretraining_run(folder: Path) -> bool:
    """Return whether a folder is that of a pretraining run, which is a checkpoint too.

    Raises:
        ArtifactError: run.json is damaged.
    """
    path = folder / "run.json"
    values = file_io.read_object(path).get("recipe") if path.is_file() else None
    return isinstance(values, dict) and "corpus" in values


def recipe_of(folder: Path) -> FinetuneRecipe | None:
    """The values of the run in a folder; None where there is no run.json.

    Raises:
        ArtifactError: run.json is damaged, or of another program.
    """
    path = folder / "run.json"
    if not path.is_file():
        return None
    values = file_io.read_object(path).get("recipe")
    if not isinstance(values, dict) or "task" not in values:
        raise ArtifactError(f"{path}: not of a fine-tuning run")
    try:
        return FinetuneRecipe(**renamed(values))  # pyright: ignore[reportCallIssue]
    except (TypeError, UsageError) as error:
        raise ArtifactError(f"{path}: not of a fine-tuning run: {error}") from error
