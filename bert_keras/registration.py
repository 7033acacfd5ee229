"""Registration of our classes with Keras, and of the writers of `export` with our models.

Saved models open after `import bert_keras`, without another import.

`keras.models.load_model` finds a class by the name under which its module registered it. Where
Keras is imported already, `import bert_keras` imports all modules with registered classes: they
cost a tenth of a second. Where it is not, it must not be: tokenizers and corpora work without it,
its backend may take ten seconds, and `KERAS_BACKEND` may still be set. Then the modules are
imported right after Keras, by whomever it is imported, through a finder on `sys.meta_path`. Nothing
inside Keras is replaced.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from bert_keras import hooks
from bert_keras.hooks import WatchedLoader, find_spec

_KERAS, _LIBRARY = "keras", "bert_keras"
# Importing these pages registers every class. None of them imports a framework but Keras's backend.
PAGES = ("bert_keras.layers", "bert_keras.models", "bert_keras.optimization")


def register_with_keras() -> None:
    """Register all our classes with Keras: now where it is imported, else once it is."""
    if any(isinstance(finder, _AfterKeras) for finder in sys.meta_path):
        return  # `bert_keras` is reloaded
    hook = _AfterKeras()
    if not _is_ready(_KERAS):
        sys.meta_path.insert(0, hook)
    if _KERAS in sys.modules:
        # Where another thread is importing Keras, this waits for it. Where this thread is (Keras's
        # import led to ours), it returns at once: the next import of a module of ours registers.
        with contextlib.suppress(Exception):
            importlib.import_module(_KERAS)
    hook.register_if_ready()


def register_export_writer() -> None:
    """Set what `export` of our models calls; it is imported at the first call."""

    def write(*args: Any, **kwargs: Any) -> bool:
        from bert_keras.export.runtime_model import is_written

        return is_written(*args, **kwargs)

    hooks.set_export_writer(write)


class _AfterKeras:
    """A finder that imports `PAGES` as soon as Keras is imported.

    Keras may be imported by a module of ours that a page imports. The pages cannot be imported
    before that module is complete. So the import of our own modules is watched too.
    """

    def __init__(self) -> None:
        self._thread = threading.local()
        self._is_done = False

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec that the other finders have for Keras or a module of ours, else None."""
        is_watched = name == _KERAS or name.rpartition(".")[0] == _LIBRARY
        if self._is_done or not is_watched or getattr(self._thread, "is_searching", False):
            return None
        self._thread.is_searching = True  # other finders may ask all finders, and so this one
        try:
            spec = find_spec(name, path, target)
        finally:
            self._thread.is_searching = False
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = WatchedLoader(spec.loader, self.executing)  # pyright: ignore[reportAttributeAccessIssue]
        return spec

    @contextlib.contextmanager
    def executing(self, module: ModuleType) -> Iterator[None]:
        """Count the watched modules that this thread is executing; register after the last."""
        self._thread.executed = getattr(self._thread, "executed", 0) + 1
        try:
            yield
        finally:
            self._thread.executed -= 1
        self.register_if_ready(is_keras_ready=module.__name__ == _KERAS)

    def register_if_ready(self, *, is_keras_ready: bool = False) -> None:
        """Import the pages if Keras is complete and this thread is executing no module of ours."""
        if getattr(self._thread, "executed", 0) or not (is_keras_ready or _is_ready(_KERAS)):
            return
        self._is_done = True
        with contextlib.suppress(ValueError):  # never inserted, or another thread was quicker
            sys.meta_path.remove(self)
        try:
            for page in PAGES:
                importlib.import_module(page)
        except Exception as error:  # an import of Keras must not fail because of us
            # Where another thread is importing a page, that thread registers.
            if all(_is_ready(page) for page in PAGES if page in sys.modules):
                warnings.warn(
                    "bert_keras could not register its classes with Keras, so "
                    "keras.models.load_model will not find them: "
                    f"{type(error).__name__}: {error}",
                    RuntimeWarning,
                    stacklevel=2,
                )


def _is_ready(name: str) -> bool:
    """Return whether a module is imported, and not still being executed."""
    module = sys.modules.get(name)
    # As the import system marks it; modules that were made by hand may have no spec.
    return module is not None and not getattr(
        getattr(module, "__spec__", None), "_initializing", False
    )
