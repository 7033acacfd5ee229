"""A checkpoint folder in Hugging Face's layout, opened: config, options, weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from bert_keras.checkpoints import head_options, hugging_face, tensors
from bert_keras.checkpoints import manifest as manifests
from bert_keras.checkpoints.families import FAMILIES, Family
from bert_keras.checkpoints.format import Entry
from bert_keras.checkpoints.manifest import CONFIG, MANIFEST, WEIGHTS
from bert_keras.config import BertConfig
from bert_keras.errors import ArtifactError
from bert_keras.models import BertEncoder, Task
from bert_keras.presets import PRESETS

# Every class that a folder can hold.
_CLASSES = (*FAMILIES["bert"].classes, "ReplacedTokenDetector")


@dataclasses.dataclass(frozen=True)
class Folder:
    """A checkpoint folder.

    Attributes:
        directory: where it is.
        manifest: what only a folder of ours has.
        values: its config.json.
    """

    directory: Path
    manifest: dict[str, Any] | None
    values: dict[str, Any]

    @classmethod
    def open(cls, handle: str | Path) -> Folder:
        """Reads the small files.

        Raises:
            ArtifactError: no folder, or not a checkpoint.
        """
        directory = Path(handle)
        if not directory.is_dir():
            raise ArtifactError(
                f"{str(handle)!r} is neither a checkpoint folder nor a preset. "
                f"Presets: {', '.join(PRESETS)}"
            )
        manifest = manifests.read(directory, _CLASSES)
        values = {} if manifest else manifests.read_json(directory / CONFIG)
        return cls(directory, manifest, values)

    @property
    def class_name(self) -> str:
        """The class of ours that was written, or that is theirs.

        Raises:
            ArtifactError: a class we have not.
        """
        if self.manifest is not None:
            return self.manifest["class"]
        path = self.directory / CONFIG
        family = FAMILIES[hugging_face.family_of(self.values, path)]
        theirs = self.values.get("architectures")
        for ours, name in family.classes.items():
            if theirs == [name]:
                return ours
        raise ArtifactError(
            f"{path}: architectures={theirs!r} is not one of {', '.join(family.classes.values())}. "
            "Open it with BertEncoder.from_preset or the from_preset of a task."
        )

    def config(self, allow_missing: tuple[str, ...], load_weights: bool) -> BertConfig:
        """The config. If weights will be loaded, no memory is taken for sizes they have not.

        Raises:
            ArtifactError: it is not one of an encoder, or not that of the tensors.
        """
        if self.manifest is not None and not load_weights:
            return self._own_config(self.manifest)
        with tensors.TensorFile(self.directory / WEIGHTS, hugging_face.current_name) as file:
            if self.manifest is not None:
                config = self._own_config(self.manifest)
            else:
                path = self.directory / CONFIG
                rows = hugging_face.table_of(FAMILIES[hugging_face.family_of(self.values, path)])
                pooler = rows.module("pooler/dense")
                has_pooler = any(name.endswith(f"{pooler}.weight") for name in file.shapes)
                config = hugging_face.read_config(
                    self.values, path, pooler=has_pooler or "pooler" in allow_missing
                )
            family = self._family(config)
            prefix = hugging_face.encoder_prefix(family, file.shapes)
            expected = {
                prefix + name: shape
                for path, name, shape in hugging_face.sizes(config, family)
                if not _begins(path, allow_missing)
            }
            found = {name: file.shapes[name] for name in expected if name in file.shapes}
            tensors.check(file.path, found, expected)
        return config

    def build(
        self,
        model_class: type,
        config: BertConfig,
        options: dict[str, Any],
        make: Callable[[dict[str, Any]], Any],
    ) -> Any:
        """Makes the model, with the options it was saved with where it is of this class."""
        name = model_class.__name__
        if self.manifest is None:
            path = self.directory / CONFIG
            saved = head_options.read(name, self.values, config, path)
        else:
            path = self.directory / MANIFEST
            saved = self.manifest["options"] if self.manifest["class"] == name else {}
        if not saved:
            return make(options)
        try:
            return make(saved | options)
        except (TypeError, ValueError) as error:
            raise ArtifactError(
                f"{path}: the options do not fit a {name}: {error} Received: {saved}"
                + (f" and {options}" if options else "")
            ) from error

    def load_weights(
        self,
        model: BertEncoder | Task,
        config: BertConfig,
        allow_missing: tuple[str, ...],
        allow_unused: tuple[str, ...],
    ) -> None:
        """Assigns every tensor of the file to its variable.

        Raises:
            ArtifactError: the tensors are not those of the model; all of them are listed.
        """
        path = self.directory / WEIGHTS
        family = self._family(config)
        if self.manifest is not None:
            manifests.check_digest(path, self.manifest)
        with tensors.TensorFile(path, hugging_face.current_name) as file:
            prefix = hugging_face.encoder_prefix(family, file.shapes)
            table = hugging_face.table_of(family)
            known = [
                variable
                for variable in model.weights
                if not (_begins(variable.path, allow_missing) and not table.knows(variable.path))
            ]
            if strangers := [v.path for v in known if not table.knows(v.path)]:
                raise ArtifactError(
                    f"{path}: a checkpoint of {family.model_types[0]} has nothing for "
                    f"{', '.join(strangers)}. Allow it: allow_missing=(…)."
                )
            found = entries(known, family, prefix)
            missing = {entry.tensor for entry in found if _begins(entry.path, allow_missing)}
            unused = {name for name in file.shapes if _may_be_unused(name, family, allow_unused)}
            expected = {entry.tensor: entry.shape for entry in found}
            tensors.check(path, file.shapes, expected, missing, unused)
            for entry in found:
                if entry.tensor in file.shapes:
                    entry.variable.assign(entry.leaf.convert(file.read(entry.tensor)))

    def _family(self, config: BertConfig) -> Family:
        if self.manifest is None:
            return FAMILIES[config.family]
        return hugging_face.family_for(config, self.manifest["class"], self.manifest["options"])

    def _own_config(self, manifest: dict[str, Any]) -> BertConfig:
        try:
            return BertConfig.from_dict(manifest["config"])
        except ValueError as error:
            raise ArtifactError(f"{self.directory / MANIFEST}: {error}") from error


def entries(variables: Iterable[Any], family: Family, prefix: str) -> list[Entry]:
    """Variables with the tensors they are stored in; the encoder's names begin with `prefix`."""
    heads = dict.fromkeys(hugging_face.HEADS, "")
    return hugging_face.table_of(family).entries(variables, {"": prefix, **heads})


def _may_be_unused(tensor: str, family: Family, allowed: tuple[str, ...]) -> bool:
    name = tensor.removeprefix(family.prefix)
    modules = hugging_face.table_of(family).our_modules(name)
    return name in family.redundant or any(_begins(path, allowed) for path in modules)


def _begins(path: str, beginnings: tuple[str, ...]) -> bool:
    return any(path == start or path.startswith(f"{start}/") for start in beginnings)
