"""Folder of a run. It belongs to one recipe, whose values must stay once training began.

Both kinds of runs have

    run.json             the recipe's values, the backend, hashes of files; versions
    report.md            with its pictures
    config.json, model.safetensors, vocab.txt, …   the trained model, a checkpoint folder

A training within the folder has

    checkpoints/         the last two training checkpoints
    metrics.jsonl        one line per logging interval, the same bytes after any interruption
    speed.jsonl          one line per logging interval: what depends on the machine
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from bert_keras import file_io
from bert_keras.errors import ArtifactError, UsageError
from bert_keras.training import overrides
from bert_keras.training.finetune_recipe import FinetuneRecipe
from bert_keras.training.input_digests import digests, digests_in
from bert_keras.training.overrides import Change, last_step_in
from bert_keras.training.pretrain_recipe import PretrainRecipe
from bert_keras.training.recipe_base import RunRecipe, renamed


class TrainingFiles:
    """Files of one training; an interrupted one is resumed from them.

    Args:
        path: their folder.
    """

    def __init__(self, path: Path):
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.metrics = path / "metrics.jsonl"
        self.speed = path / "speed.jsonl"


class RunFolder:
    """The folder of a run. `PretrainFolder` and `FinetuneFolder` say what they hold.

    Args:
        recipe: its `out` or `name` gives the folder.
        temporary: a temporary folder in its place, which no file of the run names.
    """

    program: ClassVar[str]  # as messages name the kind of run
    own_key: ClassVar[str]  # a value that recipes of other programs do not have
    allowed: ClassVar[tuple[str, ...]]  # names that a folder without run.json may hold
    free: ClassVar[tuple[str, ...]]  # values that change nothing that is computed
    overridable: ClassVar[tuple[str, ...]]  # values that `override=` may change in a begun run
    card: ClassVar[tuple[str, ...]]  # the keys of run.json, in order

    def __init__(self, recipe: RunRecipe, temporary: str = ""):
        self.temporary = temporary
        self.given = Path(temporary or recipe.out or f"runs/{recipe.name}")  # "~" is not expanded
        self.path = file_io.expanded(self.given)
        self.run = self.path / "run.json"
        self.report = self.path / "report.md"

    # === Facts of a kind of run ===

    def is_begun(self) -> bool:
        """Return whether a step was trained, so that no value of the recipe may change."""
        raise NotImplementedError

    def inputs(self, recipe: Any) -> dict[str, Any]:
        """Return what must be the same when a run resumes, beside the values; run.json keeps it."""
        raise NotImplementedError

    def changed_inputs(
        self, recipe: Any, then: Mapping[str, Any], now: Mapping[str, Any]
    ) -> list[str]:
        """Return a line for each input that differs between run.json and now."""
        raise NotImplementedError

    def binding(self, names: Collection[str]) -> Collection[str]:
        """Return those names of values that must be as in run.json."""
        return names if self.is_begun() else ()

    def is_rewritten(self) -> bool:
        """Return whether a claim writes run.json anew."""
        return not self.is_begun()

    def last_step(self) -> Any:
        """Return the step of the last checkpoint, after which a changed value counts."""
        raise NotImplementedError

    def require_possible(self, changes: Sequence[Change]) -> None:
        """Check that the run can go on with changed values. Nothing is written.

        Raises:
            UsageError: it cannot.
        """

    def accept(self, changes: Sequence[Change]) -> None:
        """Prepare the folder for changed values, which are possible."""

    # === Claim ===

    def values(self, recipe: RunRecipe) -> dict[str, Any]:
        """Return a recipe's values as the run's files show them.

        Paths in a temporary folder are relative to it. `override=` is of one command, and no value
        of the run.
        """
        values = recipe.values() | {"override": ""}
        if self.temporary:
            inside = f"{self.temporary}/"
            texts = {name: value for name, value in values.items() if isinstance(value, str)}
            values |= {name: text.removeprefix(inside) for name, text in texts.items()}
        return values

    def check(self) -> None:
        """Check that the folder is, or may become, one of such a run. Nothing is written.

        Raises:
            UsageError: it is something else.
        """
        if self.path.exists() and not self.path.is_dir():
            raise UsageError(f"{self.path} is a file. Choose a folder with out=FOLDER.")
        if self.run.exists():
            self._read()
            return
        # A process killed while it wrote run.json leaves a temporary file.
        names = sorted(item.name for item in self.path.glob("*"))
        others = [
            name for name in names if name not in self.allowed and not name.startswith(".tmp-")
        ]
        if others:
            raise UsageError(
                f"{self.path} is not the folder of a run: it has no run.json but "
                f"{', '.join(others[:5])}. Choose another folder with out=FOLDER."
            )

    def claim(self, recipe: RunRecipe, backend: str, versions: Mapping[str, str]) -> None:
        """Write run.json, or check that the run in the folder is this one.

        Raises:
            UsageError: the folder holds another run, or something else.
        """
        self.check()
        inputs = self.require_same(recipe, backend)
        known = {"recipe": self.values(recipe), "backend": backend, "versions": dict(versions)}
        before = self._read() if self.run.exists() else {}
        changes = self._changes(recipe, backend, before) if self.is_begun() and before else []
        entries = list(before.get(overrides.KEY, ())) if self.is_begun() else []
        if changes:
            self.accept(changes)
            entries.append(overrides.entry(self.last_step(), changes))
            print(f"override: {overrides.notes(entries[-1:])[0]}", file=sys.stderr)
        if changes or self.is_rewritten():
            card = {key: (known | inputs)[key] for key in self.card}
            file_io.write_json(self.run, card | ({overrides.KEY: entries} if entries else {}))

    def require_same(self, recipe: RunRecipe, backend: str) -> dict[str, Any]:
        """Check that a run which is begun in this folder is that of a recipe.

        Returns:
            What run.json keeps as the run's inputs.

        Raises:
            UsageError: the folder holds another run.
        """
        inputs = self.inputs(recipe)
        allowed = overrides.overridden(recipe.override, self.overridable)
        if not self.run.exists():
            return inputs
        before = self._read()
        changes = self._changes(recipe, backend, before)
        refused = [change for change in changes if change.name not in allowed]
        others = self.changed_inputs(recipe, before, inputs) if self.is_begun() else []
        if refused or others:
            known = self.overridable if self.is_begun() else ()
            raise overrides.refusal(self.path, refused, others, known)
        self.require_possible(changes)
        return inputs

    def _changes(self, recipe: RunRecipe, backend: str, before: Mapping[str, Any]) -> list[Change]:
        """Return the values that differ from those in run.json, the content of `before`."""
        values = self.values(recipe)
        bound = [name for name in self.binding(values) if name not in self.free]
        changes = overrides.changed_values(recipe, values, bound, before["recipe"])
        if self.is_begun() and before.get("backend") != backend:
            changes.append(Change(overrides.BACKEND, before.get("backend"), backend))
        return changes

    def _read(self) -> dict[str, Any]:
        """Return run.json, with the values by their names of today.

        Raises:
            UsageError: it is damaged, or of another program.
        """
        try:
            card = dict(file_io.read_json(self.run))
            card["recipe"] = renamed(card["recipe"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(
                f"{self.run} cannot be read ({error!r}). Choose another folder with out=FOLDER."
            ) from error
        if self.own_key not in card["recipe"]:
            raise UsageError(
                f"{self.run} is not of a {self.program} run. Choose another folder with out=FOLDER."
            )
        return card


# === Folder of a pretraining run ===


# Values that make the corpus: before the first checkpoint only these bind, once it is made.
TEXT_VALUES = (
    *("corpus", "layout", "language", "field", "validation_split"),
    *("vocab", "tokenizer_model", "vocab_size", "lowercase"),
)


class PretrainFolder(RunFolder):
    """The folder of a pretraining run, with the files of its training.

    It has also

        corpus/          the token store and the vocabulary, unless the recipe names a prepared one
        loss.png
        exported.json    where the SavedModel is
    """

    program = "pretraining"
    own_key = "corpus"
    allowed = ("LOCK", "corpus")
    free = ("workers", "tensorboard", "export", "out")
    overridable = ("steps", "learning_rate", overrides.BACKEND)
    card = ("recipe", "sizes", "backend", "versions")

    def __init__(self, recipe: PretrainRecipe, temporary: str = ""):
        super().__init__(recipe, temporary)
        self.training = TrainingFiles(self.path)
        self.corpus = self.path / "corpus"
        self.picture = self.path / "loss.png"
        self.weights = self.path / "model.safetensors"
        self.exported = self.path / "exported.json"

    def is_begun(self) -> bool:
        """Return whether there is a checkpoint."""
        return self.training.checkpoints.exists()

    def binding(self, names: Collection[str]) -> Collection[str]:
        """Return all names once training began; before that those that made the corpus."""
        return names if self.is_begun() else TEXT_VALUES if self.corpus.exists() else ()

    def last_step(self) -> int:
        """Return the step of the last checkpoint; 0 if there is none."""
        return last_step_in(self.training.checkpoints)

    def require_possible(self, changes: Sequence[Change]) -> None:
        """Refuse fewer steps than are trained, and a learning rate for no step."""
        overrides.require_steps(self.path, changes, self.training.checkpoints)

    def inputs(self, recipe: PretrainRecipe) -> dict[str, Any]:
        """Return the sizes of a new model: the file that `config=` names may change."""
        return {"sizes": None if recipe.init_checkpoint else recipe.sizes().to_dict()}

    def changed_inputs(
        self, recipe: PretrainRecipe, then: Mapping[str, Any], now: Mapping[str, Any]
    ) -> list[str]:
        """Return a line if the sizes are others than those in run.json."""
        if not now["sizes"] or then.get("sizes") in (None, now["sizes"]):
            return []
        return [f"  config: {recipe.config} holds other sizes than then"]


# === Folder of a fine-tuning run ===


QUICKTEST = ".quicktest"  # made-up examples and models of --quicktest


class FinetuneFolder(RunFolder):
    """The folder of a fine-tuning run.

    It has also

        .quicktest/            made-up examples and models, where --quicktest was given a folder
        seed-<n>/              the files of a training, best/, result.json
        curve.png, confusion.png, reliability.png, lengths.png
        predictions.<form>     of the best seed on the validation examples
        metrics.json           its seed and metrics
        predictor.json         options of its answers, for `Predictor.from_preset`
    """

    program = "fine-tuning"
    own_key = "task"
    allowed = ("LOCK", QUICKTEST)
    free = ("workers", "out", "seeds", "checkpoint_every")
    overridable = ("epochs", "learning_rate", overrides.BACKEND)
    card = ("recipe", "backend", "files", "versions")

    def __init__(self, recipe: FinetuneRecipe, temporary: str = ""):
        super().__init__(recipe, temporary)
        self._seeds = range(recipe.seed, recipe.seed + recipe.seeds)
        self.curve = self.path / "curve.png"
        self.confusion = self.path / "confusion.png"
        self.reliability, self.lengths = self.path / "reliability.png", self.path / "lengths.png"
        self.metrics = self.path / "metrics.json"

    def of_seed(self, seed: int) -> Path:
        """Return the folder of a seed's files."""
        return self.path / f"seed-{seed}"

    def is_begun(self) -> bool:
        """Return whether a seed has a checkpoint or a result."""
        return any(any(self.path.glob(f"seed-*/{name}")) for name in ("checkpoints", "result.json"))

    def last_step(self) -> dict[str, int]:
        """Return the step of the last checkpoint of each seed that has one."""
        folders = sorted(self.path.glob("seed-*/checkpoints"))
        return {folder.parent.name: last_step_in(folder) for folder in folders}

    def require_possible(self, changes: Sequence[Change]) -> None:
        """Refuse fewer epochs than a seed has trained, and a learning rate for no step."""
        overrides.require_epochs(self.path, changes, self._seeds)

    def accept(self, changes: Sequence[Change]) -> None:
        """Let seeds go on that ended: all of them with other epochs, else those that failed."""
        overrides.reopen_seeds(self.path, changes)

    def is_rewritten(self) -> bool:
        """Return True: more seeds may be trained later, and files of a model may be added."""
        return True

    def inputs(self, recipe: FinetuneRecipe) -> dict[str, Any]:
        """Return the digests of the files that the recipe names, by value and file name.

        A file of a begun run that is missing now keeps its digest in run.json.
        """
        files = digests(recipe)
        is_known = self.run.exists() and self.is_begun()
        then = digests_in(file_io.read_object(self.run)) if is_known else {}
        names = then | files
        return {"files": {name: then.get(name, {}) | files.get(name, {}) for name in names}}

    def changed_inputs(
        self, recipe: FinetuneRecipe, then: Mapping[str, Any], now: Mapping[str, Any]
    ) -> list[str]:
        """Return a line for each file whose digest differs from that in run.json."""
        before = digests_in(then)
        return [
            f"  {name}: {getattr(recipe, name)} holds something else than then ({file})"
            for name, digests in now["files"].items()
            for file, digest in digests.items()
            if before.get(name, {}).get(file, digest) != digest
        ]


def folder_of(recipe: RunRecipe, temporary: str = "") -> RunFolder:
    """Return the folder of a recipe's run, or a temporary one in its place."""
    if isinstance(recipe, PretrainRecipe):
        return PretrainFolder(recipe, temporary)
    assert isinstance(recipe, FinetuneRecipe)
    return FinetuneFolder(recipe, temporary)


def is_pretraining_run(folder: Path) -> bool:
    """Return whether a folder is that of a pretraining run; such a folder is a checkpoint too.

    Raises:
        ArtifactError: run.json is damaged.
    """
    path = folder / "run.json"
    values = file_io.read_object(path).get("recipe") if path.is_file() else None
    return isinstance(values, dict) and "corpus" in values


def recipe_of(folder: Path) -> FinetuneRecipe | None:
    """Return the values of the fine-tuning run in a folder; None without run.json.

    Raises:
        ArtifactError: run.json is damaged, or of another program.
    """
    path = folder / "run.json"
    if not path.is_file():
        return None
    values = file_io.read_object(path).get("recipe")
    if not isinstance(values, dict) or "task" not in values:
        raise ArtifactError(
            f"{path}: not of a fine-tuning run. Name the folder of one, or a model."
        )
    try:
        return FinetuneRecipe(**renamed(values))  # pyright: ignore[reportCallIssue]
    except (TypeError, UsageError) as error:
        raise ArtifactError(f"{path}: not a readable fine-tuning recipe: {error}") from error
