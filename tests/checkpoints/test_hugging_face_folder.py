"""Folders in Hugging Face's layout: what their tensors show beside config.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bert_keras.checkpoints.hugging_face_folder import Folder
from bert_keras.checkpoints.manifest import CONFIG
from tests import reference


def test_tensors_show_a_value_that_the_config_does_not_state(
    transformers: Any, tmp_path: Path
) -> None:
    model = reference.hugging_face_model(transformers, "ForMaskedLM", "deberta_v2_lm_head")
    model.save_pretrained(tmp_path)
    stated = json.loads((tmp_path / CONFIG).read_text())
    for legacy, family in ((None, "deberta_v2_lm_head"), (True, "deberta_v2")):
        values = {key: value for key, value in stated.items() if key != "legacy"}
        values |= {} if legacy is None else {"legacy": legacy}
        (tmp_path / CONFIG).write_text(json.dumps(values))
        opened = Folder.open(tmp_path)
        with opened.source() as source:
            assert opened.read_config(source.shapes, ()).family == family
        # Only the family that the tensors show has their head.
        assert opened.class_name == ("BertEncoder" if legacy else "MaskedLM")
