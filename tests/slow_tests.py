"""Tests that are slow on one backend, and that another backend or a quicker test can replace.

`pytest` and `.ci/run` leave them out; `.ci/full` and `pytest -m ""` run them. A test that is slow
on one backend alone is run every time on another, if that other one can run it.
"""

from __future__ import annotations

Tests = dict[str, tuple[str, ...]]

# A test file or a test -> parameters of the cases that still run every time.
# These tests run the same Python code on every backend. PyTorch compiles nothing, so it runs all of
# them.
_ON_PYTORCH_ALONE: Tests = {
    "tests/models/test_round_trips.py::test_what_was_trained_is_what_is_loaded": ("BertEncoder",),
    "tests/models/test_round_trips.py::test_a_view_is_loaded_as_it_was_trained": (
        "Distiller",
        "PackedTask labels",
    ),
    "tests/models/test_distiller.py::test_a_student_comes_near_its_teacher": (
        "labels",
        "tags-hidden",
    ),
    "tests/models/test_adaptation.py::test_training_goes_on_from_a_file_as_without_it": (),
    "tests/models/test_pretraining_electra.py::test_learns_both": (),
    "tests/models/test_compiling.py::"
    "test_every_form_of_data_gives_the_losses_of_weighed_examples": (),
    "tests/models/test_compiling.py::test_arrays_have_labels_in_both_forms": (),
    "tests/models/test_checkpointed_gradients.py::test_training_is_the_same": ("float32-MaskedLM",),
    "tests/models/test_at_positions.py::test_loss_and_gradients_are_those_over_the_whole_encoder": (
        "absolute-MaskedLM",
        "relative_key-Pretrainer",
    ),
    "tests/checkpoints/test_hostile_sizes.py": (),
    "tests/checkpoints/test_new_heads.py::test_the_head_of_another_task_is_refused_by_name": (),
    "tests/checkpoints/test_new_heads.py::"
    "test_new_head_makes_a_new_head_over_the_head_that_is_there": (),
    "tests/checkpoints/test_new_heads.py::"
    "test_the_same_labels_load_the_head_and_other_labels_are_refused": (),
    "tests/checkpoints/test_new_heads.py::"
    "test_labels_without_names_are_compared_by_their_number": (),
    "tests/checkpoints/test_sentence_transformers.py::"
    "test_answers_are_theirs_and_stay_so_when_written_back": ("plain", "several poolings"),
    "tests/checkpoints/test_sentence_transformers.py::test_similarity_is_theirs": (
        "prompt not pooled",
    ),
    "tests/checkpoints/test_sentence_transformers.py::test_the_activation_of_pairs": (),
    "tests/test_migration.py::test_the_line_opens_what_the_class_opened": (),
    "tests/training/test_pretrain.py::test_values": (
        "loss=nsp packed_length=80 loss_chunks=3 short_seq_prob=0.9-measured2",
    ),
    "tests/training/test_pretrain.py::"
    "test_averaged_weights_are_saved_also_when_only_the_end_is_missing": (),
    "tests/training/test_pretrain.py::test_a_model_learns": (),
    "tests/training/test_pretrain.py::test_held_out_text_smaller_than_a_batch": (),
    "tests/training/test_predict.py::test_masks_are_filled_by_a_pretraining_run": (),
    "tests/training/test_evaluate.py::test_what_the_run_was_measured_on_gives_the_same": (
        "text_classification",
        "question_answering",
        "retrieval",
    ),
    "tests/training/test_finetune.py::test_other_ways_to_train": (
        "unfreeze_every=1+schedule=slanted_triangular+warmup=0",
    ),
    "tests/training/test_finetune.py::test_a_random_field_over_tags": (),
    "tests/training/test_finetune.py::test_a_student_and_its_teacher": (),
    "tests/training/test_finetune.py::test_tags_of_several_sentences_in_a_row": (),
    "tests/training/test_dry_run.py::test_the_files_of_a_run_are_listed": (),
    "tests/training/test_dry_run.py::test_a_folder_that_the_run_would_refuse": (),
    "tests/training/test_names.py::test_a_run_whose_name_is_markup": (),
    "tests/test_sklearn.py::test_cross_validation_and_grid_search": (),
    "tests/test_sklearn.py::test_a_classifier_learns_labels_of_any_kind": (),
    "tests/test_sklearn.py::test_a_regressor_learns_the_scale_of_its_numbers": (),
    "tests/test_sklearn.py::test_pairs_are_two_columns": (),
    "tests/test_fit_page.py::test_the_code_of_the_page_runs": (),
    "tests/test_quickstart.py::test_the_quickstart_prints_what_it_says": (),
    "tests/test_quickstart.py::test_the_tasks_print_what_the_page_says": (),
    "tests/test_finetuning_page.py::test_python_blocks_run": (),
    "tests/test_migration.py::test_our_blocks_run": (),
    "tests/test_hooks.py::test_the_writers_are_imported_at_the_first_export": (),
    "tests/test_cli.py::test_predict_as_the_folder_says": (),
    "tests/test_cli.py::test_verify_finds_a_difference": (),
    "tests/test_cli.py::test_a_prompt_is_of_vectors": (),
    "tests/test_cli.py::test_a_name_of_a_preset": (),
    "tests/test_cli.py::test_a_threshold_is_of_questions": (),
    "tests/test_outputs.py::test_a_watched_process": ("exports",),
    "tests/test_readme.py::test_shell_blocks_are_accepted": (),
    "tests/test_registration.py::test_saved_models_open_in_a_new_process": (
        "import keras, bert_keras-1",
    ),
    "tests/test_examples.py::test_the_quick_form_runs": (
        "compare_sst2.keras_hub_peer",
        "search_sentences",
        "serve_saved_model",
    ),
    "tests/export/runtimes/test_entity_rules.py::test_the_client_finds_what_the_predictor_finds": (
        "bio-True",
    ),
    "tests/export/runtimes/test_entity_rules.py::test_the_short_client_finds_them_too": ("bio",),
    "tests/export/runtimes/test_onnx_model.py::"
    "test_only_open_sizes_have_names_and_all_weights_are_read": ("pretrainer",),
}

_TENSORFLOW: Tests = {
    # Only on JAX could an error in a training step lose the weights.
    "tests/models/test_base.py::test_an_error_costs_no_weight": ("1-fit",),
    "tests/models/test_freed_memory.py::test_a_model_of_each_class_is_freed": (
        "ChunkedTask",
        "Distiller",
        "EncoderView",
        "MaskedLM",
        "PackedTask",
    ),
    # PyTorch runs these tests every time.
    "tests/test_cli_export.py::test_export_and_check": (),
    "tests/training/test_pretrain.py::test_quicktest_of_every_recipe": (),
    # training/test_kill.py also interrupts runs.
    "tests/training/test_finetune_seed.py::test_a_killed_run_goes_on_exactly": (),
    # The test makes ten thousand calls.
    "tests/export/test_memory.py": (),
    # These start other programs, which load the same models as test_clients.py and
    # test_hub_clients.py.
    "tests/export/test_hub_clients.py::test_saved_model_cli": (),
    "tests/export/test_hub_clients.py::test_tensorflow_hub_trains_it": (),
    "tests/export/test_open_client.py::test_hub": ("True",),
    # The graphs of the omitted tasks consist of parts that the remaining tasks have too.
    "tests/export/test_clients.py::test_answers_are_the_predictors": (
        "labels",
        "entities",
        "questions",
        "fills",
    ),
    "tests/export/test_clients.py::test_rows_do_not_disturb_each_other": (
        "labels",
        "entities",
        "questions",
        "fills",
    ),
    "tests/export/graph/test_question_answering.py::test_answers_are_the_predictors": (
        "16-options0",
        "24-options2",
    ),
    "tests/export/graph/test_token_classification_entities.py::test_entities_are_the_predictors": (
        "bio-False",
        "bare-False",
        "others-True",
        "bilou-True",
    ),
    "tests/export/graph/test_signatures_texts.py::test_signatures": (
        "_classifier-text-outputs0-others0",
        "<lambda>-text-outputs3-others3",
        "QuestionAnswerer-question context-outputs4-others4",
        "MultipleChoice-prompt options-outputs5-others5",
        "SentenceEncoder-text-outputs6-others6",
        "MaskedLM-text-outputs9-others9",
        "Pretrainer-text-outputs10-others10",
    ),
    "tests/export/graph/test_signatures_assets.py::test_warm_up_requests_are_answered": (
        "MultipleChoice",
    ),
    "tests/export/graph/test_tf_hub.py::test_encoders": ("bert", "no_pooler"),
    "tests/export/runtimes/test_litert.py::test_it_answers_alike": ("choices", "attentions"),
    "tests/export/runtimes/test_onnx_model.py::test_quantised": ("int8-0.1",),
}

_TORCH: Tests = {
    # PyTorch needs seconds to trace each exported model.
    "tests/export/runtimes/test_torch_export.py::test_it_answers_alike": (
        "pretrainer",
        "attentions",
    ),
    "tests/export/runtimes/test_onnx_model.py::"
    "test_only_open_sizes_have_names_and_all_weights_are_read": ("pairs",),
    "tests/export/runtimes/test_openvino_model.py::test_it_answers_alike": ("choices-None-1e-05",),
    # TensorFlow runs this test every time.
    "tests/test_outputs.py::test_a_watched_process": ("programs",),
}

_JAX: Tests = {
    "tests/models/test_with_tokenizer.py::test_text_in_gives_the_same_answer_after_every_way": (),
    "tests/test_outputs.py::test_a_watched_process": (),
}

SLOW: dict[str, Tests] = {
    "tensorflow": _ON_PYTORCH_ALONE | _TENSORFLOW,
    "torch": _TORCH,
    "jax": _ON_PYTORCH_ALONE | _JAX,
}


def is_slow(nodeid: str, slow: Tests) -> bool:
    """Return whether a table of slow tests names this one."""
    test, _, parameters = nodeid.partition("[")
    path = test.partition("::")[0]
    quick = slow.get(test, slow.get(path))
    return quick is not None and parameters.removesuffix("]") not in (quick or (None,))
