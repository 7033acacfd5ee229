"""Tests that are slow on one backend alone; see slow_tests.py."""

from __future__ import annotations

# Test file -> test -> parameters of its cases that still run every time. A file without tests is
# slow as a whole.
Tests = dict[str, dict[str, tuple[str, ...]]]

# A browser opens a page for each case.
PAGES: Tests = {
    "tests/serving/page/test_page.py": {},  # test_page_served.py has the same tests
    "tests/serving/page/test_page_requests.py": {
        "test_an_error_of_the_server": (),
        "test_hostile_text_is_text": ("token_classification",),
        "test_a_browser_that_does_not_copy": (),
        "test_a_saved_model_says_why_it_has_one_answer": (),
        "test_a_server_that_is_away": (),
        "test_a_server_with_a_token": (),
        "test_a_server_without_models": (),
        "test_attention_without_lines_says_so": (),
        "test_entities_count_code_points": (),
        "test_many_data": (),
        "test_many_unknown_words_are_told": (),
        "test_masks_take_other_words": (),
        "test_openai_code_compares_by_the_cosine_only": (),
        "test_right_to_left": (),
        "test_the_copied_code_of_one_text": (),
        "test_the_copied_code_of_pairs": (),
        "test_the_copied_code_of_vectors": (),
        "test_the_newest_request_counts": (),
        "test_unknown_and_masked_tokens_are_not_special": (),
        "test_why_a_view_is_missing": (),
    },
    "tests/serving/page/test_page_served.py": {
        "test_the_copied_code_prints_the_answer": ("search",),
    },
    "tests/visualize/test_in_a_browser.py": {
        "test_attention_without_lines_says_so": (),
        "test_hovering_shows_the_lines_of_a_token": ("dark",),
        "test_layers_and_heads_count_from_zero": (),
    },
    "tests/visualize/test_picture.py": {"test_a_theme": ("embeddings", "saliency")},
}

TORCH: Tests = {
    # PyTorch needs seconds to trace each exported model. TensorFlow exports the others.
    "tests/export/runtimes/test_onnx_model.py": {
        "test_only_open_sizes_have_names_and_all_weights_are_read": (),
        "test_open_axes_have_names": (),
        "test_the_runtime_knows_what_it_reads": (),
    },
    "tests/export/runtimes/test_openvino_model.py": {
        "test_it_answers_alike": ("choices-None-1e-05",)
    },
    "tests/export/runtimes/test_token_classification.py": {
        "test_the_client_finds_what_the_predictor_finds": (),
        "test_the_short_client_finds_them_too": (),
    },
    "tests/export/test_open_client.py": {"test_runtimes": ()},
    "tests/export/test_runtime_model.py": {
        "test_a_file_answers_as_the_model_in_any_size": (),
        "test_it_answers_as_predict_does": ("torch/fills",),
        "test_rows_do_not_disturb_each_other": ("torch/fills",),
    },
    "tests/export/test_runtime_predictor.py": {
        "test_answers_are_those_of_the_model": ("labels",),
        "test_it_is_served": (),
    },
    "tests/export/runtimes/test_torch_export.py": {
        "test_a_full_disk_does_not_end_the_process": (),
        "test_it_answers_alike": ("pretrainer",),
        "test_no_path_of_this_machine_is_in_it": (),
        "test_quantised": (),
    },
    "tests/test_hooks.py": {"test_the_writers_are_imported_at_the_first_export": ()},
    "tests/test_serving_page.py": {"test_the_client_works_with_an_export": ()},
    # tests/test_exporting_page.py exports and checks on TensorFlow.
    "tests/test_cli_export.py": {"test_export_and_check": ()},
    # These start processes or train for long. Quicker tests, or another backend, run the same code.
    "tests/benchmarks/test_mean_vectors.py": {"test_differences": ()},
    "tests/benchmarks/test_preparers.py": {"test_keras_hub": ()},
    "tests/checkpoints/test_hostile_sizes.py": {
        "test_options_of_a_head": tuple(f"True-<lambda>{number}" for number in range(6)),
        "test_sizes_in_a_preset_of_keras_hub": ("AlbertBackbone-albert",),
    },
    "tests/checkpoints/test_model_card.py": {"test_any_name_is_shown_as_it_is": ()},
    "tests/checkpoints/test_new_heads.py": {
        "test_folders_that_transformers_wrote": (
            *("ForSequenceClassification-albert", "ForTokenClassification-modernbert"),
        ),
        "test_new_head_of_every_task_without_labels": ("albert", "modernbert"),
    },
    "tests/checkpoints/test_tf_hub.py": {
        "test_same_weights_and_outputs": ("albert", "bert, no pooler", "electra")
    },
    "tests/data/test_learning.py": {
        "test_answers_of_any_script": (),
        "test_entities_of_any_script": (),
        "test_labels": ("texts",),
        "test_numbers": (),
        "test_pairs_apart": ("similarity",),
        "test_several_labels": (),
        "test_tags": ("False-True",),
    },
    "tests/layers/test_serialization.py": {
        "test_models": ("BertEncoder", "MaskedLM", "PackedTask", "SentencePairs", "TokenClassifier")
    },
    "tests/models/test_distiller.py": {
        "test_a_student_comes_near_its_teacher": (
            *("labels", "tags-hidden", "spans-hidden", "in_batch-hidden"),
        )
    },
    "tests/models/test_freed_memory.py": {"test_models_trained_one_after_another_are_freed": ()},
    "tests/models/test_round_trips.py": {"test_what_was_trained_is_what_is_loaded": ()},
    "tests/models/test_sentence_similarity.py": {"test_learns_the_vectors_of_a_teacher": ()},
    "tests/models/test_shared_weights.py": {"test_a_new_process_opens_a_users_model": ()},
    "tests/models/test_with_tokenizer.py": {
        "test_text_in_gives_the_same_answer_after_every_way": ()
    },
    "tests/serving/test_server.py": {"test_ctrl_c_ends_with_0": ()},
    "tests/test_outputs.py": {"test_a_watched_process": ()},
    "tests/test_package.py": {
        "test_models_are_made_without_tensorflow": (),
        "test_the_tests_need_no_package_but_those_of_dev": (),
    },
    "tests/test_quickstart.py": {"test_the_tasks_print_what_the_page_says": ()},
    "tests/test_reference.py": {"test_the_examples_print_what_the_page_says": ()},
    "tests/test_registration.py": {"test_saved_models_open_in_a_new_process": ()},
    "tests/test_notebooks.py": {"test_a_notebook_is_executed_and_stored": ()},
    "tests/test_sklearn.py": {"test_a_classifier_learns_labels_of_any_kind": ()},
    "tests/training/test_evaluate.py": {
        "test_what_the_run_was_measured_on_gives_the_same": (
            *("question_answering", "retrieval", "text_classification", "token_classification"),
        )
    },
    "tests/training/test_finetune.py": {
        "test_quicktest_of_every_recipe": (
            *("conll2003_distilled", "mrpc", "snli_vectors", "squad", "sst2", "sst2_distilled"),
        )
    },
    "tests/training/test_finetune_seed.py": {
        "test_a_killed_run_goes_on_exactly": (),
        "test_every_way_to_train_goes_on_exactly": (
            "token_classification-('crf=true', 'unfreeze_every=2')",
        ),
    },
    "tests/training/test_pretrain.py": {
        "test_quicktest_of_every_recipe": (
            *("d2l_wikitext2-False", "electra_demo-False", "wiki_mini-False"),
        ),
    },
}

JAX: Tests = {
    "tests/training/test_mine_negatives.py": {
        "test_a_killed_process": (),
        "test_fine_tuning_reads_the_table": ("csv",),
    },
    "tests/models/test_base.py": {"test_an_error_costs_no_weight": ("0-fit",)},
    "tests/models/test_encoder_values.py": {
        "test_half_precision_is_close": ("like_modernbert",),
        "test_masked_tokens_of_packed_rows": ("disentangled", "like_modernbert"),
        "test_views_compute_the_vectors_of_the_encoder": (
            *("disentangled_shared", "like_modernbert"),
        ),
    },
    "tests/test_package.py": {
        "test_models_are_made_without_tensorflow": (),
        "test_pretraining_without_tensorflow": (),
        "test_the_tests_need_no_package_but_those_of_dev": (),
    },
}

TENSORFLOW: Tests = {
    "tests/training/test_mine_negatives.py": {
        "test_a_killed_process": (),
        "test_fine_tuning_reads_the_table": ("csv",),
    },
    "tests/checkpoints/test_tf_hub.py": {
        "test_modules_of_tensorflow_1": ("bert",),
        "test_same_weights_and_outputs": ("albert",),
    },
    "tests/checkpoints/test_tf_hub_export.py": {
        "test_same_weights_config_and_outputs": ("distilbert",)
    },
    "tests/export/graph/test_question_answering.py": {
        "test_answers_are_the_predictors": ("16-options0",)
    },
    "tests/export/graph/test_signatures.py": {
        "test_functions_answer_as_the_predictor": ("encoder", "numbers", "vectors")
    },
    "tests/export/graph/test_signatures_texts.py": {
        "test_portable_has_no_operation_of_tensorflow_text": (),
        "test_rows_without_a_token_are_no_answer": (),
        "test_signatures": ("MultipleChoice-prompt options-outputs5-others5",),
    },
    "tests/export/graph/test_text_classification_texts.py": {"test_labels": ("single_label-True",)},
    "tests/export/graph/test_tf_hub.py": {"test_encoders": ("bert",)},
    "tests/export/graph/test_token_classification_entities.py": {
        "test_entities_are_the_predictors": ("bare-False",)
    },
    "tests/export/runtimes/test_litert.py": {
        "test_it_answers_alike": ("choices",),
        "test_quantised": ("float16-0.003",),
    },
    "tests/export/runtimes/test_onnx_model.py": {
        "test_it_answers_alike": ("pairs",),
        "test_quantised": ("int8-0.1",),
    },
    "tests/export/runtimes/test_openvino_model.py": {
        "test_it_answers_alike": ("pretrainer-int8-0.1",)
    },
    "tests/export/test_clients.py": {
        "test_answers_are_the_predictors": ("labels",),
        "test_rows_do_not_disturb_each_other": ("labels",),
    },
    "tests/export/test_open_client.py": {"test_hub": ()},
    "tests/export/test_saved_model_subwords.py": {
        "test_labels_of_texts_and_pairs": ("modernbert",)
    },
    "tests/export/test_runtime_model.py": {
        "test_a_file_answers_as_the_model_in_any_size": ("tagger-onnx",),
        "test_a_saved_model_answers_as_the_model": ("tagger",),
        "test_it_answers_as_predict_does": ("onnx/labels",),
        "test_rows_do_not_disturb_each_other": ("onnx/labels",),
    },
    "tests/kernels/test_query_blocks.py": {"test_an_encoder_trains_alike": ("False-window",)},
    "tests/layers/test_saved_model_layer.py": {
        "test_all_outputs_are_the_encoders": (),
        "test_what_is_frozen_does_not_move": ("model",),
    },
    "tests/models/test_base.py": {"test_an_error_costs_no_weight": ("1-fit",)},
    "tests/serving/test_saved_model.py": {"test_the_page_and_all_protocols_answer": ()},
    "tests/test_cli_export.py": {"test_export_and_check": ()},
    "tests/test_exporting_page.py": {
        "test_the_programs_run": (),
        "test_the_commands_wrote_what_the_page_says": (),
    },
    "tests/test_migration_from_others.py": {"test_the_page_of_tf_hub_runs": ()},
    "tests/test_new_task.py": {"test_a_keras_file_opens": (), "test_a_saved_model_answers": ()},
    "tests/test_package.py": {"test_devices_can_be_configured_after_all_imports": ()},
    "tests/tokenizers/test_backends.py": {"test_real_strings": ("xlm_roberta",)},
    "tests/tokenizers/test_basic_tokenizer.py": {
        "test_characters_are_split_as_the_engine_does": ("splitter1",),
        "test_every_code_point": ("accents_kept",),
    },
    "tests/tokenizers/test_tf_subwords.py": {
        "test_places_of_special_tokens": ("1-True-True",),
        "test_the_ids_of_python": ("roberta",),
    },
    "tests/tokenizers/test_tf_tokenizer.py": {
        "test_any_string": ("accents_kept-fast", "accents_stripped-portable"),
        "test_hard_strings": ("accents_kept-fast", "accents_stripped-portable"),
        "test_eager_tf_data_and_reloaded_are_the_same": (
            "accents_kept-fast",
            "accents_stripped-portable",
        ),
    },
    "tests/tokenizers/test_tokenizer.py": {
        "test_real_strings": ("bert-base-chinese-vocab.txt-switches3-None",)
    },
    "tests/training/test_pretrain.py": {"test_quicktest_of_every_recipe": ()},
}
