"""The folder of a run: where everything lies, and whose it is.

runs/<name>/
    run.json         the recipe's values, backend and versions, written once
    corpus/          the token store and the vocabulary, unless the recipe names a prepared one
    checkpoints/     the last two training checkpoints
    metrics.jsonl    one line per report: the same bytes however often the run was interrupted
    speed.jsonl      one line per report: what depends on the machine
    report.md, loss.png
    config.json, model.safetensors, vocab.txt, …   the trained model, a checkpoint folder
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from bert_keras.errors import UsageError
from bert_keras.resume import atomic
from training.recipe import PretrainRecipe

# Values that may differ when a run goes on: they change nothing that is computed.
_FREE = ("workers", "tensorboard", "out")


class RunFolder:
    """The paths of a run.

    Args:
        recipe: whose `out` or `name` gives the folder.
    """

    def __init__(self, recipe: PretrainRecipe):
        self.path = Path(recipe.out or f"runs/{recipe.name}")
        self.run = self.path / "run.json"
        self.corpus = self.path / "corpus"
        self.checkpoints = self.path / "checkpoints"
        self.metrics = self.path / "metrics.jsonl"
        self.speed = self.path / "speed.jsonl"
        self.report = self.path / "report.md"
        self.picture = self.path / "loss.png"

    def claim(self, recipe: PretrainRecipe, backend: str, versions: dict[str, str]) -> None:
        """Writes run.json, or checks that the run found here is this one.

        Raises:
            UsageError: the folder holds another run, or something else.
        """
        values = dataclasses.asdict(recipe)
        if not self.run.exists():
            strangers = sorted(
                path.name for path in self.path.glob("*") if path.name not in ("LOCK", "corpus")
            )
            if strangers:
                raise UsageError(
                    f"{self.path} is not the folder of a run: it has no run.json but "
                    f"{', '.join(strangers[:5])}. Choose another with out=FOLDER."
                )
            card = {"recipe": values, "backend": backend, "versions": versions}
            atomic.write_text(self.run, json.dumps(card, indent=2) + "\n")
            return
        before = self._read()
        changed = [
            f"  {name}: {before['recipe'].get(name)!r} then, {value!r} now"
            for name, value in values.items()
            if name not in _FREE and before["recipe"].get(name) != value
        ]
        if before["backend"] != backend:
            changed.append(f"  backend: {before['backend']} then, {backend} now")
        if changed:
            raise UsageError(
                f"{self.path} holds a run with other values:\n" + "\n".join(changed) + "\n"
                "Give the same values to go on with it, or out=FOLDER for a new run."
            )

    def _read(self) -> dict[str, Any]:
        try:
            card = json.loads(self.run.read_text(encoding="utf-8"))
            return {"recipe": dict(card["recipe"]), "backend": card["backend"]}
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"{self.run} cannot be read ({error!r}). Choose another folder with out=FOLDER."
            ) from error
