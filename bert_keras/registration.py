"""Registration of our classes with Keras, and of the writer of `export` with our models.

Saved models open after `import bert_keras`, without another import: `keras.models.load_model` finds
a class by the name under which its module registered it.

If Keras is imported already, `import bert_keras` imports all modules with registered classes, which
takes a tenth of a second. Otherwise it must not import Keras: tokenizers and corpora work without
it, its backend may take ten seconds, and `KERAS_BACKEND` may still be set. Then a finder on
`sys.meta_path` imports the modules right after any code imports Keras. Nothing inside Keras is
replaced.
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
# The import of these packages registers every class. They import no framework except the backend.
PAGES = ("bert_keras.layers", "bert_keras.losses", "bert_keras.models", "bert_keras.optimization")


def register_with_keras() -> None:
    """Register all our classes with Keras: now, or after the import of Keras."""
    if any(isinstance(finder, _AfterKeras) for finder in sys.meta_path):
        return  # `bert_keras` was reloaded
    hook = _AfterKeras()
    if not _is_ready(_KERAS):
        sys.meta_path.insert(0, hook)
    if _KERAS in sys.modules:
        # If another thread is importing Keras, this waits for it. If this thread is importing Keras
        # and that led to this import, it returns at once. The next import of one of our modules
        # then registers the classes.
        with contextlib.suppress(Exception):
            importlib.import_module(_KERAS)
    hook.register_if_ready()


def register_export_writer() -> None:
    """Set the function that `export` of our models calls. It is imported at the first call."""

    def write(*args: Any, **kwargs: Any) -> bool:
        """Call `export.runtime_model.is_written`."""
        from bert_keras.export.runtime_model import is_written

        return is_written(*args, **kwargs)

    hooks.set_export_writer(write)


class _AfterKeras:
    """Finder on `sys.meta_path` that imports `PAGES` as soon as Keras is imported.

    One of our own modules may be the one that imports Keras. Then `PAGES` can be imported only when
    that module is complete. So imports of our own modules are watched too.
    """

    def __init__(self) -> None:
        self._thread = threading.local()
        self._is_done = False

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of Keras or one of our modules with a watched loader; else None."""
        is_watched = name == _KERAS or name.rpartition(".")[0] == _LIBRARY
        if self._is_done or not is_watched or getattr(self._thread, "is_searching", False):
            return None
        self._thread.is_searching = True  # `find_spec` calls all finders, this one included
        try:
            spec = find_spec(name, path, target)
        finally:
            self._thread.is_searching = False
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = WatchedLoader(spec.loader, self.executing)  # pyright: ignore[reportAttributeAccessIssue]
        return spec

    @contextlib.contextmanager
    def executing(self, module: ModuleType) -> Iterator[None]:
        """Count the watched modules that this thread is executing, and register after the last."""
        self._thread.executed = getattr(self._thread, "executed", 0) + 1
        try:
            yield
        finally:
            self._thread.executed -= 1
        self.register_if_ready(is_keras_ready=module.__name__ == _KERAS)

    def register_if_ready(self, *, is_keras_ready: bool = False) -> None:
        """Import `PAGES` if Keras is complete and this thread is executing none of our modules."""
        if getattr(self._thread, "executed", 0) or not (is_keras_ready or _is_ready(_KERAS)):
            return
        self._is_done = True
        with contextlib.suppress(ValueError):  # never inserted, or removed by another thread
            sys.meta_path.remove(self)
        try:
            for page in PAGES:
                importlib.import_module(page)
        except Exception as error:  # an import of Keras must not fail because of us
            # If another thread is importing one of them, that thread registers its classes.
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
    # The import system sets `_initializing`. Modules that were made by hand may have no spec.
    return module is not None and not getattr(
        getattr(module, "__spec__", None), "_initializing", False
    )
