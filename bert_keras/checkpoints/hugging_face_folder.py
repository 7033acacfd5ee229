"""Folders in Hugging Face's layout, written by Hugging Face's libraries or by `bert_keras`.

`model.safetensors` holds plain float kernels, which every library reads. `exact_weights` describes
the file beside it.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bert_keras import features, file_io
from bert_keras.checkpoints import (
    exact_weights,
    hugging_face,
    hugging_face_names,
    hugging_face_tensors,
    new_heads,
    sentence_transformers,
    tensors,
    unusual_values,
    weight_files,
    wrapped_names,
)
from bert_keras.checkpoints import manifest as manifests
from bert_keras.checkpoints.checkpoint import Checkpoint, Shapes, is_task
from bert_keras.checkpoints.hugging_face_config import completed, family_of, read_config
from bert_keras.checkpoints.hugging_face_family import Family, task_format
from bert_keras.checkpoints.hugging_face_names import (
    CLASS_OF_HEADS,
    CLASSES,
    FAMILIES,
    VECTOR_CLASSES,
    VECTOR_OPTIONS,
)
from bert_keras.checkpoints.manifest import CONFIG, MANIFEST, STATE_WEIGHTS
from bert_keras.checkpoints.name_mapping import NameMap
from bert_keras.config import BertConfig
from bert_keras.errors import ArtifactError
from bert_keras.task_names import ENCODER
from bert_keras.tokenizers.files import transformer_folder

if TYPE_CHECKING:
    from bert_keras.models import BertEncoder, Task

ADAPTER = "adapter_config.json"  # PEFT's file: transformers applies the adapter to the model


@dataclasses.dataclass(frozen=True)
class Folder(Checkpoint):
    """A folder with config.json and safetensors files.

    Attributes:
        directory: path of the folder.
        manifest: parsed `bert_keras.json`; None in a folder of another library.
        values: parsed config.json; {} in a folder with a manifest.
        allow_pickle: whether a pytorch_model.bin may be read if there is no safetensors file.
        variant: variant of the weights files, such as "fp16"; None for the plain files.
    """

    directory: Path
    manifest: dict[str, Any] | None
    values: dict[str, Any]
    allow_pickle: bool = False
    variant: str | None = None

    @classmethod
    def open(
        cls, directory: Path, *, allow_pickle: bool = False, variant: str | None = None
    ) -> Folder:
        """Read the small files.

        Raises:
            ArtifactError: if the folder is not a checkpoint.
        """
        manifest = manifests.read(directory, CLASSES)
        inner = directory if manifest else transformer_folder(directory)
        path = inner / CONFIG
        for folder in (directory, inner):
            if (folder / ADAPTER).is_file():
                raise ArtifactError(
                    f"{folder / ADAPTER}: adapters of PEFT, which change the answers, cannot be "
                    "read. Merge them with PEFT's `merge_and_unload` and save the model, or remove "
                    "the file to open the model without them."
                )
        if manifest is None and not path.is_file():
            foreign = weight_files.describe_foreign(inner)
            raise ArtifactError(" ".join(filter(None, [file_io.missing_file(path), foreign])))
        if path.is_file():
            values = file_io.read_object(path)
            hugging_face_names.warn_of_hugging_face(values, path)
        if manifest is None:
            return cls(directory, None, values, allow_pickle, variant)
        if path.is_file():
            _check_agreement(manifest, values, path)
        return cls(directory, manifest, {}, allow_pickle, variant)

    @property
    def _transformer(self) -> Path:
        """Folder of config.json and the weights: a subfolder in old sentence-transformers."""
        return self.directory if self.manifest is not None else transformer_folder(self.directory)

    @functools.cached_property
    def _sentences(self) -> sentence_transformers.SentenceFolder | None:
        """Content of the files of sentence-transformers; None if there are none."""
        is_one = sentence_transformers.is_one(self.directory)
        return sentence_transformers.read(self.directory) if is_one else None

    @property
    def class_name(self) -> str:
        """Name of our class: the one that was saved, or the equivalent of Hugging Face's class."""
        if self.manifest is not None:
            return self.manifest["class"]
        if self._sentences is not None:
            return self._sentences.class_name
        theirs = self.values.get("architectures")
        ours = next(iter(self._named_classes()), None)
        # Published BERTs state BertForMaskedLM although they hold the sentence-pair head.
        is_shown = task_format(ours).is_mlm if ours else theirs in (None, [])
        class_name = (self._class_of_tensors() if is_shown else None) or ours
        if class_name is None:
            raise ArtifactError(
                f"{self._transformer / CONFIG}: architectures={theirs!r} is not one of "
                f"{', '.join(self._theirs.classes.values())}. Open it with "
                "BertEncoder.from_preset or the from_preset of a task."
            )
        return class_name

    def _named_classes(self) -> list[str]:
        """Return our classes that `architectures` of config.json names, in its order."""
        theirs = self.values.get("architectures")
        names: list[Any] = theirs if isinstance(theirs, list) else []
        return [ours for name in names for ours in self._theirs.our_classes(name)]

    def _class_of_tensors(self) -> str | None:
        """Return our class with exactly the heads that the tensors show; None if there is none."""
        with self.source() as source:
            prefixed = any(name.startswith(self._theirs.prefix) for name in source.shapes)
            names = hugging_face_tensors.name_map(self._theirs, prefixed=prefixed)
            owners = {
                path.partition("/")[0] for name in source.shapes for path in names.owners(name)
            }
        heads = frozenset(owners.intersection(hugging_face_tensors.HEADS))
        class_name = CLASS_OF_HEADS.get(heads)
        return class_name if class_name in self._theirs.classes else None

    def has_head(self, class_name: str, head: tuple[str, ...], shapes: Shapes) -> bool:
        """Return whether the manifest, config.json or else the tensors have this class's head."""
        is_of_it = self.head_class(class_name) == class_name
        if self.manifest is not None:
            return is_of_it and new_heads.is_described(self.manifest["options"])
        theirs = self.values.get("architectures")
        if isinstance(theirs, list) and theirs:
            return is_of_it
        return super().has_head(class_name, head, shapes)

    def head_class(self, class_name: str) -> str | None:
        """Return the class of the manifest, or the one that `architectures` names.

        If `architectures` names several, a class with a head comes before one without.
        """
        if self.manifest is not None:
            written = self.manifest["class"]
            is_same = hugging_face.options_for(class_name, written, {}) is not None
            return class_name if is_same else written
        classes = self._named_classes()
        classes.sort(key=lambda ours: ours in (ENCODER, *VECTOR_CLASSES))
        return class_name if class_name in classes else next(iter(classes), None)

    def unused_heads(self, model_class: type[BertEncoder] | type[Task]) -> tuple[str, ...]:
        """Return the heads of other classes, for sentence encoders of other libraries.

        sentence-transformers reads the encoder alone. Published files have heads beside it.
        """
        if self.manifest is not None or model_class.__name__ not in VECTOR_CLASSES:
            return ()
        own = (features.SENTENCE_VECTOR, *model_class.head_layers)
        return tuple(head for head in hugging_face_tensors.HEADS if head not in own)

    def source(self, *, verify: bool = False) -> tensors.Tensors:
        """Open the weights, and those of dense layers in folders of sentence-transformers."""
        family = None if self.manifest is not None else self._theirs
        opened = self._open_weights(family)
        path = opened.path
        if family is not None:
            table = f"{family.encoder['embeddings/token']}.weight"
            opened = wrapped_names.unwrapped(opened, table, (family.prefix,))
        if verify and self.manifest is not None:
            manifests.check_digest(path, self.manifest)
        files = [opened, *self._dense_files(verify)]
        return tensors.JoinedFiles(path, files) if len(files) > 1 else opened

    def _dense_files(self, verify: bool) -> Iterator[tensors.Tensors]:
        """Open the files of the dense layers behind the pooling of a sentence encoder."""
        try:
            folders = self._sentences.dense if self._sentences else ()
        except ArtifactError:  # `saved_options` raises it again; a bare encoder can be opened
            folders = ()
        for number, folder in enumerate(folders):
            path = weight_files.find(folder, allow_pickle=self.allow_pickle)
            if verify and self.manifest is not None:
                name = path.relative_to(self.directory).as_posix()
                manifests.check_digest(path, self.manifest, name)
            yield weight_files.open_tensors(path, f"dense.{number}.{{}}".format)

    @property
    def needs_tensor_shapes(self) -> bool:
        """True without a manifest: then only the tensors show whether there is a pooler."""
        return self.manifest is None

    def read_config(self, shapes: Shapes, allow_missing: tuple[str, ...]) -> BertConfig:
        """Read the config from the manifest, or else from config.json and the tensors' names."""
        if self.manifest is not None:
            try:
                return BertConfig.from_dict(self.manifest["config"])
            except ValueError as error:
                raise ArtifactError(f"{self.directory / MANIFEST}: {error}") from error
        pooler = f"{self._theirs.encoder.get('pooler/dense')}.weight"
        has_pooler = any(name.endswith(pooler) for name in shapes) or "pooler" in allow_missing
        return read_config(self._complete_values, self._transformer / CONFIG, pooler=has_pooler)

    def unusual(self, config: BertConfig) -> list[str]:
        """Describe what the published models do not have, in the config and in config.json."""
        more = unusual_values.of_hugging_face(self.values, self._theirs) if self.values else []
        return [*super().unusual(config), *more]

    def saved_options(
        self, class_name: str, config: BertConfig, shapes: Shapes
    ) -> tuple[dict[str, Any], Path]:
        """Return the options in the manifest or, without one, in config.json."""
        del shapes
        if self.manifest is None:
            return self._their_options(class_name, config)
        written, options = self.manifest["class"], self.manifest["options"]
        if written == class_name and sentence_transformers.is_one(self.directory):
            sentence_transformers.check_same(self.directory, options, self.directory / MANIFEST)
        if (same := hugging_face.options_for(class_name, written, options)) is not None:
            options = same
        elif written != class_name:
            kept = VECTOR_OPTIONS if {written, class_name} == set(VECTOR_CLASSES) else ()
            options = {name: options[name] for name in kept if name in options}
        return options, self.directory / MANIFEST

    def _their_options(self, class_name: str, config: BertConfig) -> tuple[dict[str, Any], Path]:
        """Return the options in the files of the other libraries, and the path of the file."""
        if class_name in VECTOR_CLASSES and self._sentences is not None:
            sentences = self._sentences
            if sentences.class_name not in VECTOR_CLASSES:
                raise ArtifactError(
                    f"{sentences.path}: the folder holds a {sentences.class_name}, which gives no "
                    f"vectors. Open it with {sentences.class_name}.from_preset."
                )
            sentences.check_size(config.hidden_size)
            return sentences.options, sentences.path
        path = self._transformer / CONFIG
        options = hugging_face.read_head_options(class_name, self.values, config, path)
        if task_format(class_name).is_text_classifier:
            options |= sentence_transformers.pair_options(self.directory)
        return options, path

    def names(self, class_name: str, config: BertConfig, shapes: Shapes) -> NameMap:
        """Return the tensor names of the family, with its prefix if the tensors have it."""
        del class_name
        family = FAMILIES[config.family]
        if self.manifest is not None:
            written = self.manifest["class"], self.manifest["options"]
            family = hugging_face.family_for(config, *written)
        prefixed = any(name.startswith(family.prefix) for name in shapes)
        names = hugging_face_tensors.name_map(family, prefixed=prefixed, num_heads=config.num_heads)
        zeros = hugging_face_tensors.zeros(family, self.values, names, shapes)
        return dataclasses.replace(names, zeros=zeros)

    def set_state(self, model: Any, *, is_new: bool = False) -> None:
        """Restore the saved state if the model has the saved class and options; else warn.

        Another task or a new head over a saved encoder is a new model: all of its weights train.
        """
        state = (self.manifest or {}).get("state")
        if self.manifest is None or not state:
            return
        is_same = type(model).__name__ == self.manifest["class"] and not is_new
        if not is_same or (is_task(model) and model.options != self.manifest["options"]):
            warnings.warn(
                f"{self.directory}: the saved {self.manifest['class']} has state that a new "
                f"{type(model).__name__} does not take over: {', '.join(state)}. The new model has "
                "its weights as plain ones, adapters merged, and all of it trains.",
                stacklevel=4,
            )
            return
        if (self.directory / STATE_WEIGHTS).is_file():
            manifests.check_digest(self.directory / STATE_WEIGHTS, self.manifest)
        exact_weights.restore_state(model, state, self.directory)

    @property
    def _theirs(self) -> Family:
        return FAMILIES[family_of(self._complete_values, self._transformer / CONFIG)]

    @functools.cached_property
    def _complete_values(self) -> dict[str, Any]:
        """Parsed config.json, with values that it does not state and tensors show."""
        return completed(self.values, self._transformer / CONFIG, self._open_weights)

    def _open_weights(self, family: Family | None = None) -> tensors.Tensors:
        """Open the weights. The family has further names of tensors, which become current ones."""
        options: dict[str, Any] = {"allow_pickle": self.allow_pickle, "variant": self.variant}
        current = functools.partial(hugging_face_tensors.current_name, family=family)
        return weight_files.open_folder(self._transformer, current, **options)


def _check_agreement(manifest: dict[str, Any], values: dict[str, Any], path: Path) -> None:
    """Compare a config.json with the manifest beside it.

    Raises:
        ArtifactError: if they differ, so that other libraries would open another model.
    """
    try:
        config = BertConfig.from_dict(manifest["config"])
        saved = manifest["class"], manifest["options"]
        names = hugging_face.family_for(config, *saved)
        written = hugging_face.write_config(config, *saved)
    except (ValueError, TypeError, KeyError, AttributeError):
        return  # `read_config` refuses such a manifest
    hugging_face_names.require_known_values(values, path, names)
    if different := [key for key in written if key in values and values[key] != written[key]]:
        key = different[0]
        raise ArtifactError(
            f"{path}: contradicts {MANIFEST} in {', '.join(different)}: {key} is "
            f"{values[key]!r:.100} here, {written[key]!r:.100} there. Take both from one save; "
            f"without {MANIFEST} the folder is opened as {CONFIG} says."
        )
    family = FAMILIES[config.family]
    changing = {*family.sizes.values(), *family.constants.values(), "id2label"}
    if absent := [
        key
        for key, value in written.items()
        if key in changing and key not in values and value != family.defaults.get(key)
    ]:
        expected = ", ".join(f"{key}={written[key]!r:.100}" for key in absent)
        raise ArtifactError(
            f"{path}: missing: {', '.join(absent)}, where other libraries have a default of their "
            f"own. Add the values of {MANIFEST}: {expected}."
        )
