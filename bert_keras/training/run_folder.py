"""The folder of a run: where everything lies, and whose it is.

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
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from bert_keras import file_io
from bert_keras.errors import UsageError
from bert_keras.training.overrides import renamed
from bert_keras.training.recipe import PretrainRecipe

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
