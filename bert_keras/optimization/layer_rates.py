"""A learning rate for each layer: less of it further down, and from later on."""

from __future__ import annotations

import re
from collections.abc import Iterable
from numbers import Integral
from typing import Any

from keras import ops

_BLOCK = re.compile(r"(?:^|/)block_(\d+)/")
_EMBEDDINGS = re.compile(r"(?:^|/)embeddings/")


def depths(paths: Iterable[str]) -> tuple[int, ...]:
    """Return the number of layers above each variable, by its path.

    Args:
        paths: of all variables that are trained.

    Returns:
        0 for the head, and for the pooler, which lies above all blocks; 1 for the highest block
        among these variables, and so on; for the embeddings one more than for block 0.

    Raises:
        ValueError: no variable is of a block.
    """
    paths = list(paths)
    blocks = [_BLOCK.search(path) for path in paths]
    height = 1 + max((int(block[1]) for block in blocks if block), default=-1)
    if not height:
        raise ValueError(
            "`layer_decay` and `unfreeze_every` tell layers by paths such as block_3/… and "
            f"embeddings/…, and there is no block. Received: variables {', '.join(paths)}"
        )
    found = []
    for path, block in zip(paths, blocks, strict=True):
        if block:
            found.append(height - int(block[1]))
        else:
            found.append(height + 1 if _EMBEDDINGS.search(path) else 0)
    return tuple(found)


class LayerRates:
    """A part of an optimizer: its rate, times a share for each layer.

    The share of depth d is `layer_decay ** d`, and zero before update `d * unfreeze_every`: a
    function of path and step alone, so it has no state, and a resumed run goes on exactly.

    The rate is scaled, not the gradient, from whose scale Adam's step does not depend. Weights of
    one depth are updated together, so that the backend's own update of many variables is kept.

    Args:
        layer_decay: in (0, 1]; 1 gives all layers the same rate.
        unfreeze_every: updates until the next layer below moves too; 0 for all from the beginning.

    Raises:
        ValueError: one of them out of range.
    """

    def __init__(
        self, *args: Any, layer_decay: float = 1.0, unfreeze_every: int = 0, **kwargs: Any
    ):
        if not 0 < layer_decay <= 1:
            raise ValueError(f"`layer_decay` must lie in (0, 1]. Received: {layer_decay=}")
        if not isinstance(unfreeze_every, Integral) or unfreeze_every < 0:
            raise ValueError(
                f"`unfreeze_every` must be a whole number of updates. Received: {unfreeze_every=}"
            )
        super().__init__(*args, **kwargs)
        self.layer_decay = float(layer_decay)
        self.unfreeze_every = int(unfreeze_every)
        self._depths: tuple[int, ...] = ()
        self._rate_of_a_layer: Any = None

    def build(self, variables: list[Any]) -> None:
        """Keras: makes the optimizer's own variables for these of the model."""
        if self.layer_decay != 1 or self.unfreeze_every:
            self._depths = depths(variable.path for variable in variables)
        super().build(variables)  # pyright: ignore

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        config = super().get_config()  # pyright: ignore
        return {**config, "layer_decay": self.layer_decay, "unfreeze_every": self.unfreeze_every}

    def _backend_update_step(self, grads: Any, trainable_variables: Any, learning_rate: Any):
        update: Any = super()._backend_update_step  # pyright: ignore
        if not self._depths:
            update(grads, trainable_variables, learning_rate)
            return
        for depth, places in self._places(trainable_variables).items():
            gradients = [grads[place] for place in places]
            variables = [trainable_variables[place] for place in places]
            update(gradients, variables, learning_rate * self._share(depth))

    def _apply_weight_decay(self, variables: Any) -> None:
        # Not asked for on TensorFlow: see `DecayInStep`, to which the rates come with the step.
        decay: Any = super()._apply_weight_decay  # pyright: ignore
        if not self._depths:
            decay(variables)
            return
        # PyTorch updates no empty list, so those that do not decay are left out here.
        variables = [variable for variable in variables if self._use_weight_decay(variable)]
        rate = self._get_current_learning_rate()
        try:
            for depth, places in self._places(variables).items():
                self._rate_of_a_layer = rate * self._share(depth)
                decay([variables[place] for place in places])
        finally:
            self._rate_of_a_layer = None

    def _get_current_learning_rate(self) -> Any:
        # Keras's decay of weights takes no rate: it asks for the current one.
        if self._rate_of_a_layer is not None:
            return self._rate_of_a_layer
        return super()._get_current_learning_rate()  # pyright: ignore

    def _places(self, variables: Any) -> dict[int, list[int]]:
        """Depth -> where its variables stand in the list."""
        found: dict[int, list[int]] = {}
        for place, variable in enumerate(variables):
            depth = self._depths[self._get_variable_index(variable)]
            found.setdefault(depth, []).append(place)
        return found

    def _share(self, depth: int) -> Any:
        share = self.layer_decay**depth
        if not self.unfreeze_every or not depth:
            return share
        return share * ops.cast(self.iterations >= depth * self.unfreeze_every, "float32")
