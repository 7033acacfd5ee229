"""Tests that run on PyTorch and on one of the two backends that compile.

JAX and TensorFlow need 5 to 50 times as long as PyTorch for these, because each compiles or traces
the models of a test. So `.ci/run` leaves each of them to the quicker of the two, as measured on one
machine in one run (2026-11-30). Kernels and exact resumption are tested on both.
"""

from __future__ import annotations

from tests.slow_tests_backends import Tests

NOT_ON_JAX: Tests = {
    "tests/checkpoints/test_hugging_face_bert_variants.py": {
        "test_roformers_rotations_are_written_as_transformers_computes_them": ()
    },
    "tests/checkpoints/test_hugging_face_deberta.py": {
        "test_buckets_of_distances": (),
        "test_the_heads_of_a_published_file": (),
    },
    "tests/checkpoints/test_hugging_face_names.py": {
        "test_groups_offsets_and_fixed_positions": (),
        "test_the_files_of_keras_hub": (),
        "test_there_and_back": (),
        "test_what_we_write_does_not_contradict_itself": (),
    },
    "tests/checkpoints/test_hugging_face_names_folder.py": {
        "test_what_no_family_of_theirs_has_is_kept_too": ()
    },
    "tests/checkpoints/test_hugging_face_prenorm.py": {"test_ways_to_read_the_tokens": ()},
    "tests/checkpoints/test_hugging_face_rotary.py": {"test_gte_as_code_of_a_folder_wrote_it": ()},
    "tests/data/test_datasets_in_fit.py": {"test_fit_reads_epoch_after_epoch": ()},
    "tests/data/test_documents.py": {"test_sentences_lose_nothing_but_white_space": ()},
    "tests/layers/test_attention.py": {
        "test_a_row_of_padding_gives_finite_numbers": (),
        "test_every_token_may_have_a_mask_of_its_own": (),
    },
    "tests/layers/test_core.py": {"test_weights_of_an_adapted_layer": ()},
    "tests/layers/test_core_calls.py": {
        "test_a_layer_that_is_computed_again": (),
        "test_an_activation_comes_after_the_layers_own": (),
        "test_it_computes_the_same": (),
        "test_quantize_of_a_model_reaches_every_kernel_and_table": (),
    },
    "tests/layers/test_crf.py": {"test_likelihood_is_that_of_one_among_all_paths": ()},
    "tests/layers/test_distillation.py": {"test_one_minus_the_cosine_of_real_tokens": ()},
    "tests/layers/test_electra.py": {
        "test_draws_by_the_distribution": (),
        "test_equals_an_encoder_of_its_weights": (),
        "test_puts_tokens_where_masks_were": (),
        "test_symbols_have_the_shape_of_the_values": (),
    },
    "tests/layers/test_embeddings.py": {
        "test_all_positions_can_be_used_but_no_more": (),
        "test_positions_may_be_given": (),
    },
    "tests/layers/test_heads.py": {
        "test_extreme_logits_do_not_overflow": (),
        "test_logits_are_float32_in_precision_too": (),
        "test_they_are_those_of_the_whole_table": (),
        "test_vectors_are_what_the_logits_are_products_of": (),
    },
    "tests/layers/test_local_attention.py": {
        "test_bands_compute_what_the_mask_computes": (),
        "test_bands_lose_no_token": (),
        "test_dropout_in_bands": (),
        "test_gradients_of_bands": (),
        "test_windows_of_padded_and_of_packed_rows": (),
    },
    "tests/layers/test_normalization.py": {"test_values_and_gradient_are_those_of_the_formula": ()},
    "tests/layers/test_pooling.py": {"test_equals_numpy": ()},
    "tests/layers/test_positions.py": {
        "test_buckets_are_those_of_t5": (),
        "test_contract": (),
        "test_products_of_turned_vectors_depend_on_the_distance_alone": (),
        "test_rows_and_biases_at_places": (),
    },
    "tests/layers/test_relative_positions.py": {"test_only_the_distance_counts": ()},
    "tests/layers/test_sharing.py": {"test_a_clone_shares_what_the_original_shares": ()},
    "tests/layers/test_transformer_block_block.py": {
        "test_a_view_of_some_tokens": (),
        "test_every_dropout_is_active_in_training_only": (),
    },
    "tests/models/test_adaptation.py": {
        "test_chosen_layers": (),
        "test_it_begins_as_nothing": (),
        "test_smaller_encoders_have_the_adapters_in_them": (),
        "test_the_first_layers": (),
        "test_what_cannot_be_pruned": (),
    },
    "tests/models/test_at_positions.py": {"test_vectors_are_those_of_the_encoder": ()},
    "tests/models/test_attention_context.py": {
        "test_the_kernels_of_half_precision": ("bert-mixed_float16", "window-mixed_bfloat16"),
        "test_the_kernels_that_run_are_described": (
            *("alibi_window-0.0", "bert-0.0", "bert-0.1", "buckets-0.0", "window-0.0"),
        ),
    },
    "tests/models/test_base.py": {"test_an_error_costs_no_weight": ()},
    "tests/models/test_compiling.py": {"test_numbers_are_no_logits": ()},
    "tests/models/test_compiling_optimizer.py": {"test_a_rate_is_of_a_task_that_fit_compiles": ()},
    "tests/models/test_distiller.py": {
        "test_a_student_that_answers_as_its_teacher_has_no_soft_loss": (),
        "test_the_loss_is_hintons": (),
    },
    "tests/models/test_encoder.py": {
        "test_number_of_parameters": (),
        "test_padding_never_changes_real_tokens": (),
    },
    "tests/models/test_encoder_values.py": {
        "test_a_step_in_bands_is_that_without": ("False-window_in_bands",),
        "test_half_precision_is_close": (),
        "test_heads_are_pruned_or_refused_by_name": (),
        "test_masked_tokens_of_packed_rows": (),
        "test_views_compute_the_vectors_of_the_encoder": (),
    },
    "tests/models/test_fill_mask.py": {
        "test_another_number_of_tokens": (),
        "test_labels_are_whole_numbers_whatever_keras_computes_in": (),
        "test_the_accuracy_is_kerass": (),
        "test_the_loss_is_the_mean_over_the_weights": (),
        "test_unused_slots_have_no_weight": (),
    },
    "tests/models/test_pretraining.py": {"test_equals_the_numpy_reference": ()},
    "tests/models/test_pretraining_electra.py": {
        "test_format": (),
        "test_parts_are_what_was_published": (),
    },
    "tests/models/test_round_trips.py": {
        "test_a_task_is_loaded_as_it_was_trained": (),
        "test_a_view_is_loaded_as_it_was_trained": (),
    },
    "tests/models/test_sentence_pairs.py": {
        "test_outputs_are_of_the_vectors_of_the_sentence_encoder": ()
    },
    "tests/models/test_task.py": {
        "test_contract": (),
        "test_counts_of_numpy_are_stored_as_plain_int": (),
        "test_two_tasks_share_one_encoder": (),
    },
    "tests/models/test_task_views.py": {"test_a_saved_view_goes_on_with_its_loss": ()},
    "tests/models/test_task_views_chunked.py": {"test_mixed_precision": ()},
    "tests/models/test_task_views_packed.py": {
        "test_a_fixed_encoder_drops_nothing": (),
        "test_loss_and_gradients_are_those_of_the_examples": (),
        "test_outputs_are_those_of_the_examples": (),
        "test_the_mean_is_of_examples": (),
    },
    "tests/models/test_text_fit.py": {
        "test_a_task_that_was_not_compiled_learns": (),
        "test_predict_of_text_is_the_logits_in_order": (),
    },
    "tests/models/test_token_classification.py": {
        "test_tags_of_entities_have_the_scheme_of_the_labels": ()
    },
    "tests/optimization/test_learning_rates.py": {
        "test_against_numpy": (),
        "test_schedule": (),
        "test_slanted_triangular": (),
        "test_slanted_triangular_of_any_length": (),
    },
    "tests/resume/test_callbacks.py": {"test_saves_every_so_often_and_at_the_end": ()},
    "tests/resume/test_checkpoint.py": {"test_nothing_to_restore": ()},
    "tests/resume/test_checkpoint_variables.py": {
        "test_dtypes_and_shapes_are_kept": (),
        "test_metrics_are_not_state": (),
    },
    "tests/test_earlier_names.py": {"test_the_earlier_name_of_a_method_is_answered": ()},
    "tests/test_presets.py": {"test_a_new_head_without_weights_is_that_of_the_family": ()},
    "tests/test_sklearn.py": {"test_bad_targets_are_refused": ()},
    "tests/test_slow_tests.py": {
        "test_every_module_has_a_quick_test": (),
        "test_every_slow_test_exists": (),
    },
    "tests/training/tasks/test_multiple_choice.py": {"test_choices": ()},
    "tests/training/tasks/test_question_answering.py": {"test_examples_and_model": ()},
    "tests/training/tasks/test_sentence_similarity_pair_labels.py": {"test_the_head_is_kept": ()},
    "tests/training/test_finetune.py": {"test_every_task": ()},
    "tests/training/test_finetune_seed.py": {"test_a_dry_run_reads_no_weights": ()},
    "tests/training/test_finetuned_model.py": {
        "test_the_model_is_on_the_device_of_the_command_line": ()
    },
}

NOT_ON_TENSORFLOW: Tests = {
    "tests/checkpoints/test_hugging_face_names.py": {
        "test_a_config_without_a_key_opens_alike_or_is_refused": (),
        "test_names_of_labels_that_contradict_each_other": (),
    },
    "tests/checkpoints/test_hugging_face_prenorm.py": {
        "test_a_head_that_theirs_have_not": (),
        "test_output_matrices": (),
    },
    "tests/checkpoints/test_hugging_face_rotary.py": {"test_gte_with_ntk_scaling": ()},
    "tests/data/test_datasets_in_fit.py": {
        "test_a_fixed_number_of_batches": (),
        "test_an_endless_dataset_has_no_length": (),
        "test_epochs_of_equal_length_are_those_of_the_examples": (),
        "test_epochs_that_are_not_those_of_the_examples": (),
        "test_evaluations_are_equal": (),
        "test_every_call_begins_with_the_first_epoch": (),
        "test_going_on_with_a_later_epoch": (),
        "test_steps_per_epoch_on_a_finite_dataset": (),
        "test_tf_data_can_be_transformed": (),
        "test_the_batches_of_every_backend": (),
        "test_two_datasets_over_the_same_examples": (),
        "test_validation_between_epochs": (),
        "test_validation_steps": (),
    },
    "tests/data/test_documents.py": {"test_long_lines_take_linear_time_and_lose_nothing": ()},
    "tests/layers/test_attention.py": {
        "test_contract": (),
        "test_dropout_drops_probabilities_in_training_only": (),
        "test_view_contract": (),
    },
    "tests/layers/test_crf.py": {"test_contract": ()},
    "tests/layers/test_embeddings.py": {"test_contract": ()},
    "tests/layers/test_heads.py": {
        "test_classification_head_contract": (),
        "test_mlm_head_contract": (),
        "test_pair_head_contract": (),
        "test_pooler_contract": (),
    },
    "tests/layers/test_normalization.py": {"test_contract": ()},
    "tests/layers/test_packing.py": {
        "test_example_mask_contract": (),
        "test_tokens_at_contract": (),
    },
    "tests/layers/test_pooling.py": {"test_contract": (), "test_contract_of_all_options": ()},
    "tests/layers/test_sharing.py": {"test_copies_that_were_made_one_by_one_are_independent": ()},
    "tests/layers/test_state.py": {"test_another_form_is_refused": ()},
    "tests/layers/test_transformer_block.py": {"test_contract": ()},
    "tests/layers/test_transformer_block_block.py": {"test_contract": ()},
    "tests/models/test_adaptation.py": {
        "test_bad_values": (),
        "test_merged_equals_unmerged": (),
        "test_merging_after_loading_leaves_frozen_what_was_frozen_before": (),
        "test_only_adapters_and_the_head_learn": (),
    },
    "tests/models/test_base.py": {"test_all_variables_are_of_one_kind": ()},
    "tests/models/test_checkpointed_gradients.py": {"test_it_is_saved": ()},
    "tests/models/test_compiling.py": {
        "test_a_saved_task_with_such_a_loss_is_opened_and_not_trained": (),
        "test_compile_refuses_every_form": (),
        "test_the_loss_of_every_task_is_taken": (),
        "test_what_has_no_class_is_refused": (),
    },
    "tests/models/test_distiller.py": {"test_hidden_states_are_compared": (), "test_refused": ()},
    "tests/models/test_encoder.py": {
        "test_can_be_frozen_and_used_as_a_layer": (),
        "test_contract": (),
        "test_dropout_is_repeatable_and_in_training_only": (),
        "test_equals_the_numpy_reference": (),
    },
    "tests/models/test_encoder_values.py": {
        "test_dropout_with_checkpointing_drops_the_same_numbers": (),
        "test_every_weight_learns_and_checkpointing_changes_nothing": (),
        "test_files_open_again": (),
        "test_layers_that_change_their_kind_are_not_kept": (),
    },
    "tests/models/test_fill_mask.py": {
        "test_epsilon_of_the_head": (),
        "test_equals_the_numpy_reference": (),
        "test_heads_of_other_forms": (),
        "test_widths_that_cannot_be": (),
    },
    "tests/models/test_input_data.py": {
        "test_keras_receives_the_inputs_alone": (),
        "test_symbolic_inputs": (),
        "test_the_batch_of_a_task_is_one_of_its_encoder": (),
    },
    "tests/models/test_input_data_batches.py": {
        "test_a_model_of_the_users_own": (),
        "test_each_source_of_batches_is_checked": (),
        "test_long_rows_and_other_keys_of_each_source": (),
    },
    "tests/models/test_pretraining.py": {"test_losses_are_summed_as_in_the_paper": ()},
    "tests/models/test_pretraining_electra.py": {
        "test_equals_its_parts": (),
        "test_losses_are_those_of_the_paper": (),
        "test_parts_open_from_the_whole": (),
    },
    "tests/models/test_sentence_similarity.py": {"test_contract": ()},
    "tests/models/test_sentence_pairs.py": {
        "test_in_batch_loss_is_that_of_the_papers": (),
        "test_options_of_vectors_are_trained_and_kept": (),
        "test_what_cannot_be_is_refused": (),
    },
    "tests/models/test_shared_weights.py": {"test_models_of_users": ()},
    "tests/models/test_task.py": {
        "test_a_head_may_be_put_on_any_checkpoint": (),
        "test_a_layer_that_is_frozen_alone_still_drops": (),
        "test_every_task_gives_its_encoder_by_name": (),
        "test_labels_become_names_as_plain_str": (),
        "test_vectors_are_those_of_the_layers": (),
    },
    "tests/models/test_task_views.py": {
        "test_the_loss_is_scaled_where_the_task_is_of_halves": (),
        "test_variables_are_the_tasks": (),
    },
    "tests/models/test_task_views_chunked.py": {
        "test_loss_metrics_and_gradients_are_those_of_the_whole": (),
        "test_what_cannot_be": (),
    },
    "tests/models/test_task_views_packed.py": {
        "test_examples_do_not_see_each_other": (),
        "test_order_and_row_do_not_matter": (),
        "test_tasks_that_cannot_be_packed": (),
    },
    "tests/models/test_text_classification.py": {
        "test_refused": (),
        "test_the_first_token_without_the_pooler": (),
    },
    "tests/models/test_text_columns.py": {"test_fit_warns_of_text_without_spaces": ()},
    "tests/models/test_text_fit.py": {
        "test_a_callback_may_set_the_rate": (),
        "test_a_generator_with_targets_beside_it_is_refused": (),
        "test_every_task_trains_on_text_and_predicts": (),
        "test_the_compiling_of_the_caller_stays": (),
    },
    "tests/models/test_text_windows.py": {
        "test_a_predictor_calls_a_function_instead_of_a_warning": (),
        "test_long_questions_are_counted": (),
        "test_windows_of_a_text_weigh_as_much_as_a_short_text": (),
    },
    "tests/models/test_token_classification.py": {
        "test_format_of_a_field": (),
        "test_gradient_of_the_loss": (),
    },
    "tests/models/test_value_checks.py": {"test_tokens_with_an_axis_more": ()},
    "tests/models/test_vocabulary_size.py": {
        "test_a_forgotten_step_is_named": (),
        "test_arguments_out_of_range": (),
    },
    "tests/models/test_with_tokenizer.py": {
        "test_a_folder_without_a_tokenizer_gives_a_task_that_says_why": (),
        "test_a_task_answers_as_its_predictor": (),
        "test_every_constructor_takes_a_tokenizer": (),
    },
    "tests/optimization/test_learning_rates.py": {
        "test_every_optimizer_scales_its_step": (),
        "test_it_resumes_exactly": (),
        "test_it_survives_the_config_and_a_reload": (),
        "test_what_is_not_used_costs_nothing": (),
    },
    "tests/optimization/test_saved_optimizers.py": {"test_a_loaded_optimizer_goes_on": ()},
    "tests/resume/test_callbacks.py": {
        "test_a_callback_further_down_may_stop_the_training": (),
        "test_a_model_can_be_restored_within_fit": (),
        "test_a_second_signal_does_what_it_did_before": (),
        "test_a_signal_ends_the_epoch_and_the_run_can_go_on": (),
        "test_an_epoch_cut_short_is_not_saved": (),
        "test_averaged_weights_are_not_saved_as_the_state_of_training": (),
        "test_weights_that_are_not_finite_end_the_run": (),
        "test_who_sends_a_signal_is_told_once_what_comes_of_it": (),
    },
    "tests/resume/test_checkpoint.py": {
        "test_a_bad_step": (),
        "test_a_flipped_bit_in_any_byte_is_found": (),
        "test_damage_falls_back_by_name": (),
        "test_every_truncation_is_found_and_named": (),
        "test_failing_or_killed_at_every_point_of_saving": (),
        "test_keeps_the_newest": (),
        "test_the_same_step_again_replaces": (),
    },
    "tests/resume/test_checkpoint_variables.py": {
        "test_an_optimizer_that_keras_built_is_the_same": (),
        "test_another_optimizer_is_refused": (),
        "test_integers_of_another_backend_are_converted": (),
    },
    "tests/test_earlier_names.py": {"test_models_saved_with_earlier_names_open": ()},
    "tests/test_file_io.py": {"test_killed_at_every_point": ()},
    "tests/test_loading.py": {
        "test_a_checkpoint_opens_as_the_class_that_wrote_it": (),
        "test_load_checkpoint_needs_to_know_the_class": (),
        "test_what_is_no_model_of_ours_is_refused": (),
    },
    "tests/test_new_family.py": {
        "test_a_folder_has_the_fused_tensor_and_opens_again": (),
        "test_a_keras_file_opens_again": (),
    },
    "tests/test_plugins.py": {
        "test_a_missing_library_fails_a_complete_run": (),
        "test_a_module_that_skips_itself_fails_too": (),
    },
    "tests/test_presets.py": {
        "test_a_key_of_a_recipe_takes_the_weights_of_a_handle": (),
        "test_a_local_folder_of_that_name_wins": (),
        "test_a_name_stands_for_its_published_checkpoint": (),
        "test_a_repository_in_the_cache": (),
        "test_every_task_opens_by_a_name": (),
    },
    "tests/training/tasks/test_text_classification.py": {"test_models": ()},
    "tests/training/test_finetune.py": {"test_no_teacher_to_be_near_to": ()},
    "tests/training/test_finetune_data.py": {
        "test_files_of_every_task": (),
        "test_text_that_is_unknown_is_noted_for_every_task": (),
        "test_they_are_the_same_each_time": (),
    },
    "tests/training/test_finetune_seed.py": {
        "test_a_name_of_a_preset_is_an_encoder_and_a_teacher": ()
    },
    "tests/training/test_training_loop.py": {"test_a_loss_that_is_not_finite_is_reported": ()},
}
