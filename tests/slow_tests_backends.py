"""Tests that are slow on one backend alone; see slow_tests.py."""

from __future__ import annotations

# Test file -> test -> parameters of its cases that still run every time. A file without tests is
# slow as a whole.
Tests = dict[str, dict[str, tuple[str, ...]]]

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
        "test_the_client_finds_what_the_predictor_finds": ("bio-True",),
        "test_the_short_client_finds_them_too": (),
    },
    "tests/export/test_open_client.py": {"test_runtimes": ()},
    "tests/export/test_runtime_predictor.py": {"test_answers_are_those_of_the_model": ("labels",)},
    "tests/export/runtimes/test_torch_export.py": {
        "test_it_answers_alike": ("pretrainer",),
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
    "tests/models/test_round_trips.py": {
        "test_what_was_trained_is_what_is_loaded": ("BertEncoder",)
    },
    "tests/models/test_shared_weights.py": {"test_a_new_process_opens_a_users_model": ()},
    "tests/serving/test_server.py": {"test_ctrl_c_ends_with_0": ()},
    "tests/test_outputs.py": {"test_a_watched_process": ()},
    "tests/test_package.py": {
        "test_models_are_made_without_tensorflow": (),
        "test_the_tests_need_no_package_but_those_of_dev": (),
    },
    "tests/test_sklearn.py": {"test_a_classifier_learns_labels_of_any_kind": ("labels0",)},
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
        "test_every_way_to_train_goes_on_exactly": (
            "token_classification-('crf=true', 'unfreeze_every=2')",
        )
    },
    "tests/training/test_pretrain.py": {
        "test_quicktest_of_every_recipe": (
            *("d2l_wikitext2-False", "electra_demo-False", "wiki_mini-False"),
        ),
    },
    # A browser opens a page for each case.
    "tests/serving/page/test_page.py": {},  # test_page_served.py has the same tests
    "tests/serving/page/test_page_requests.py": {
        "test_an_error_of_the_server": ("429-headers2-busy",),
        "test_hostile_text_is_text": ("token_classification",),
        "test_a_browser_that_does_not_copy": (),
        "test_a_saved_model_says_why_it_has_one_answer": (),
        "test_a_server_with_a_token": (),
        "test_a_server_without_models": (),
        "test_attention_without_lines_says_so": (),
        "test_entities_count_code_points": (),
        "test_many_data": (),
        "test_many_unknown_words_are_told": (),
        "test_masks_take_other_words": (),
        "test_openai_code_compares_by_the_cosine_only": (),
        "test_right_to_left": (),
        "test_the_copied_code_of_pairs": ("cross-encoder-expected3",),
        "test_the_copied_code_of_vectors": ("vector",),
        "test_unknown_and_masked_tokens_are_not_special": (),
        "test_why_a_view_is_missing": (),
    },
    "tests/serving/page/test_page_served.py": {
        "test_the_copied_code_prints_the_answer": ("search",)
    },
    "tests/visualize/test_in_a_browser.py": {
        "test_attention_without_lines_says_so": (),
        "test_hovering_shows_the_lines_of_a_token": ("dark",),
        "test_layers_and_heads_count_from_zero": (),
    },
    "tests/visualize/test_picture.py": {"test_a_theme": ("embeddings", "saliency")},
}

# JAX compiles every model, and TensorFlow traces it. PyTorch runs all of these tests.
COMPILED: Tests = {
    "tests/checkpoints/test_hugging_face_bert_variants.py": {
        "test_ernies_task_table_has_a_row_for_every_token": ()
    },
    "tests/checkpoints/test_hugging_face_config.py": {
        "test_every_masked_lm_of_the_library_is_opened_or_has_advice": ()
    },
    "tests/layers/test_heads.py": {"test_they_are_those_of_the_whole_table": ("5",)},
    "tests/models/test_adaptation.py": {
        "test_a_smaller_encoder_learns_from_the_whole_one": (),
        "test_pruned_attention_looks_as_before": (),
        "test_pruning_twice_is_pruning_once": (),
    },
    "tests/models/test_compiling.py": {"test_equal_weights_change_nothing": ()},
    "tests/models/test_compiling_optimizer.py": {
        "test_a_fit_after_the_end_of_its_schedule_warns": (),
        "test_a_generator_has_no_number_of_steps": (),
    },
    "tests/models/test_distiller.py": {"test_the_teacher_drops_nothing_in_training": ()},
    "tests/models/test_fill_mask.py": {"test_heads_of_other_forms": ("two dense layers",)},
    "tests/models/test_pretraining_electra.py": {"test_contract": ()},
    "tests/models/test_round_trips.py": {
        "test_a_task_is_loaded_as_it_was_trained": ("MaskedLM",),
        "test_a_view_is_loaded_as_it_was_trained": ("PackedTask labels",),
    },
    "tests/models/test_sentence_similarity_pairs.py": {"test_in_batch_takes_no_targets": ()},
    "tests/models/test_task_views_chunked.py": {"test_accuracy_is_of_what_counts": ()},
    "tests/models/test_text_fit.py": {
        "test_a_text_of_weight_0_is_not_learned": (),
        "test_every_task_trains_on_text_and_predicts": ("TokenClassifier",),
        "test_features_compile_a_task_too": (),
        "test_keras_callbacks_work": (),
        "test_steps_per_epoch_are_kept": (),
        "test_the_length_and_the_pairs_of_the_training_are_kept": (),
        "test_validation_data_of_text_are_measured_in_their_order": (),
    },
    "tests/models/test_text_windows.py": {"test_fit_measures_texts_and_remembers": ()},
    "tests/models/test_token_classification.py": {
        "test_a_token_counts_alike_in_every_batch": (),
        "test_all_tokens_count_without_weights": (),
        "test_gradient_of_the_loss": ("True",),
        "test_texts_with_entities_train_as_their_words": (),
    },
    "tests/optimization/test_learning_rates.py": {"test_layers_wait_for_their_turn_in_fit": ()},
    "tests/resume/test_checkpoint.py": {"test_layout": ()},
    "tests/test_loading.py": {"test_a_preset_name_without_weights_is_an_encoder": ()},
    "tests/test_new_family.py": {"test_positions_matter_and_padding_does_not": ()},
    "tests/test_presets.py": {"test_random_weights_are_asked_for_in_words": ()},
    "tests/test_sklearn.py": {
        "test_long_texts_are_read_in_windows": (),
        "test_vectors_feed_a_pipeline": (),
    },
    "tests/training/test_finetune.py": {
        "test_a_seed_that_fails_is_named": (),
        "test_all_seeds_fail": (),
    },
    "tests/training/test_finetune_data.py": {"test_long_texts_of_a_recipe": ()},
    "tests/training/test_finetune_seed.py": {
        "test_a_task_is_built_by_the_values_of_its_recipe": (),
        "test_steps_patience_and_frozen_encoders": (),
    },
    "tests/training/test_finetuned_model.py": {"test_a_plain_checkpoint_is_known_by_its_class": ()},
    "tests/training/test_training_loop.py": {
        "test_a_signal_ends_a_training_after_a_checkpoint": (),
        "test_in_fit_the_steps_are_numbered_through": (),
    },
}

JAX: Tests = {
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
    "tests/test_cli_export.py": {"test_export_and_check": ()},
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
