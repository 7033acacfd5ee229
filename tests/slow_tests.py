"""Tests that are slow on one backend, and that another backend or a quicker test can replace.

`pytest` and `.ci/run` leave them out; `.ci/full` and `pytest -m ""` run them. A test that is slow
on every backend has a mark in its own file.
"""

from __future__ import annotations

from tests.slow_tests_backends import JAX, PAGES, TENSORFLOW, TORCH, Tests
from tests.slow_tests_compiled import NOT_ON_JAX, NOT_ON_TENSORFLOW

# These tests run the same Python code on every backend. PyTorch compiles nothing, so it runs all of
# them but those in `TORCH`. JAX compiles each model of a test, and TensorFlow traces it.
_ON_PYTORCH_ALONE: Tests = {
    "tests/benchmarks/test_contest_untuned.py": {"test_what_keras_reads_is_not_tuned": ()},
    "tests/benchmarks/test_d2l.py": {"test_a_quick_run": (), "test_every_weight_learns": ()},
    "tests/benchmarks/test_default_rates.py": {"test_every_job_is_trained_once": ()},
    "tests/benchmarks/test_embedders.py": {
        "test_figures_and_vectors": (),
        "test_texts_of_every_python": (),
    },
    "tests/benchmarks/test_mean_vectors.py": {
        "test_differences": (),
        "test_the_same_vectors": ("gelu",),
    },
    "tests/benchmarks/test_peak_memory.py": {"test_two_peaks": ()},
    "tests/benchmarks/test_preparation.py": {"test_text_of_documents": ()},
    "tests/benchmarks/test_preparers.py": {"test_keras_hub": ()},
    "tests/benchmarks/test_starters.py": {"test_ours": ("our_answer",)},
    "tests/benchmarks/test_step_profilers.py": {"test_a_step_is_profiled": ()},
    "tests/benchmarks/test_train_steppers.py": {"test_ours": ("options1",)},
    "tests/checkpoints/test_folders.py": {
        "test_encoder_round_trip": ("relative_key",),
        "test_masked_lm_round_trip": ("one_segment",),
    },
    "tests/checkpoints/test_foreign_files.py": {"test_opening_only_reads": ("keras_hub",)},
    "tests/checkpoints/test_google_tf1.py": {
        "test_there_and_back": ("albert", "electra, ElectraPretrainer")
    },
    "tests/checkpoints/test_grown_vocabulary.py": {
        "test_a_trained_token_is_kept": (),
        "test_opened_with_another_size": (),
    },
    "tests/checkpoints/test_hostile_sizes.py": {},
    "tests/checkpoints/test_hub_upload.py": {
        "test_a_branch": (),
        "test_a_card_that_was_edited_here_is_uploaded_as_it_is": (),
        "test_a_card_that_was_edited_on_the_hub_stays": (),
        "test_a_refused_upload": (
            "POST .*/batch-413-quota-ResourceError-refuses a file as too large",
        ),
        "test_every_class_saves_to_the_hub": (),
        "test_files_of_an_earlier_model_are_removed": (),
        "test_our_own_card_on_the_hub_is_renewed": (),
    },
    "tests/checkpoints/test_hugging_face.py": {"test_the_comparison_sees_the_smallest_mistake": ()},
    "tests/checkpoints/test_hugging_face_bert_variants.py": {
        "test_ernies_task_table_has_a_row_for_every_token": ()
    },
    "tests/checkpoints/test_hugging_face_config.py": {
        "test_every_masked_lm_of_the_library_is_opened_or_has_advice": ()
    },
    "tests/checkpoints/test_hugging_face_names.py": {
        "test_every_key_of_keras_hub_is_known": (),
        "test_groups_offsets_and_fixed_positions": ("distilbert",),
        "test_there_and_back": ("albert-QuestionAnswerer-AlbertForQuestionAnswering",),
    },
    "tests/checkpoints/test_hugging_face_names_folder.py": {
        "test_the_class_is_told_by_the_tensors_where_the_config_says_less": ("<lambda>-None0",),
        "test_what_no_family_of_theirs_has_is_kept_too": ("<lambda>2",),
    },
    "tests/checkpoints/test_keras_hub.py": {
        "test_folders_there_and_back": ("RobertaBackbone",),
        "test_in_memory_there_and_back": ("DistilBertBackbone",),
    },
    "tests/checkpoints/test_keras_hub_preset.py": {
        "test_the_files_say_what_theirs_do": ("ElectraBackbone",)
    },
    "tests/checkpoints/test_keras_hub_tasks.py": {
        "test_folders_there_and_back": ("XLMRobertaBackboneTextEmbedder",),
        "test_hugging_faces_tasks_become_theirs": (),
        "test_in_memory_there_and_back": ("XLMRobertaBackboneTextEmbedder",),
        "test_our_folder_has_the_head_too": (),
    },
    "tests/checkpoints/test_model_card_code.py": {"test_the_code_of_a_card_runs": ("labels",)},
    "tests/checkpoints/test_new_heads.py": {
        "test_folders_that_transformers_wrote": ("ForSequenceClassification-albert",),
        "test_labels_without_names_are_compared_by_their_number": (),
        "test_new_head_makes_a_new_head_over_the_head_that_is_there": (),
        "test_new_head_of_every_task_without_labels": ("albert",),
        "test_the_head_of_another_task_is_refused_by_name": (),
        "test_the_same_labels_load_the_head_and_other_labels_are_refused": (),
    },
    "tests/checkpoints/test_sentence_transformers.py": {
        "test_answers_are_theirs_and_stay_so_when_written_back": ("several poolings",),
        "test_prompts_are_theirs": ("prompt not pooled",),
        "test_real_weights_give_the_vectors_of_sentence_transformers": (),
        "test_similarity_is_theirs": ("prompt not pooled",),
        "test_the_activation_of_pairs": (),
    },
    "tests/checkpoints/test_sentence_transformers_modules_keys.py": {
        "test_no_key_is_passed_over_in_silence": ("weighted mean",)
    },
    "tests/checkpoints/test_sentence_transformers_writer.py": {
        "test_activations_come_back": ("tanh_shrink",)
    },
    "tests/checkpoints/test_tf_training.py": {"test_a_handle_of_one_step": (".index",)},
    "tests/checkpoints/test_weight_files.py": {
        "test_a_foreign_file_is_named_with_what_to_do": (),
        "test_several_files": (),
    },
    "tests/checkpoints/test_wrapped_names.py": {
        "test_every_file_format": (),
        "test_the_outputs_are_those_of_transformers": (),
    },
    "tests/data/test_batch_datasets.py": {"test_fit_reads_a_py_dataset_in_order": ("4",)},
    "tests/data/test_datasets_in_fit.py": {
        "test_a_training_that_stops_within_an_epoch": (),
        "test_every_call_begins_with_the_first_epoch": ("py_dataset-one_batch",),
        "test_fit_reads_epoch_after_epoch": ("py_dataset-supervised-0", "tf_dataset-supervised-0"),
        "test_one_dataset_for_training_and_validation": ("tf_dataset-one_batch",),
        "test_validation_between_epochs": ("tf_dataset-2",),
    },
    "tests/data/test_demo_corpus.py": {"test_what_this_python_ships": ()},
    "tests/data/test_documents.py": {
        "test_a_million_sentences_in_one_document": (),
        "test_memory_is_that_of_a_document_not_of_the_file": (),
    },
    "tests/data/test_learning.py": {},
    "tests/data/test_text_classification.py": {"test_real_tables": ()},
    "tests/data/test_token_classification.py": {"test_real_files": ()},
    "tests/export/runtimes/test_onnx_model.py": {
        "test_only_open_sizes_have_names_and_all_weights_are_read": ("pretrainer",)
    },
    "tests/export/runtimes/test_token_classification.py": {
        "test_the_client_finds_what_the_predictor_finds": ("bio-True",),
        "test_the_short_client_finds_them_too": ("bio",),
    },
    "tests/inference/test_base.py": {
        "test_one_row_has_the_answer_of_a_list_of_it": ("predict_entities-task",)
    },
    "tests/inference/test_sentence_similarity.py": {"test_pair_scores": ("tanh-1",)},
    "tests/layers/test_embeddings.py": {"test_contract": ("changes2-4",)},
    "tests/layers/test_frozen.py": {},
    "tests/layers/test_heads.py": {
        "test_classification_head_contract": ("None-2",),
        "test_they_are_those_of_the_whole_table": ("5",),
    },
    "tests/layers/test_pooling.py": {"test_contract": ("cls",)},
    "tests/layers/test_serialization.py": {
        "test_a_rebuilt_layer_is_frozen_before_any_model_is_made": (),
        "test_layers": ("BertEmbeddings", "FixedTable", "MaskedLMHead"),
        "test_models": ("BertEncoder",),
    },
    "tests/metrics/test_text_classification.py": {"test_labels_by_second_formulas": ()},
    "tests/metrics/test_token_classification.py": {"test_seqeval_finds_the_same": ()},
    "tests/models/test_adaptation.py": {
        "test_a_folder_is_that_of_a_plain_encoder": (),
        "test_a_smaller_encoder_learns_from_the_whole_one": (),
        "test_gradients_are_those_of_the_whole_kernel": (),
        "test_merged_equals_unmerged": ("float32",),
        "test_pruned_attention_looks_as_before": (),
        "test_pruning_is_exact": (),
        "test_pruning_twice_is_pruning_once": (),
        "test_the_training_checkpoint_has_them": (),
        "test_training_goes_on_from_a_file_as_without_it": (),
    },
    "tests/models/test_at_positions.py": {
        "test_loss_and_gradients_are_those_over_the_whole_encoder": (),
        "test_of_texts_the_first_token_is_enough": (),
    },
    "tests/models/test_base.py": {"test_it_decays_on_no_backend_and_another_task_may_train_it": ()},
    "tests/models/test_checkpointed_gradients.py": {"test_training_is_the_same": ()},
    "tests/models/test_compiling.py": {
        "test_a_loader_of_pytorch_is_weighed": (),
        "test_arrays_have_labels_in_both_forms": (),
        "test_equal_weights_change_nothing": (),
        "test_every_form_of_data_gives_the_losses_of_weighed_examples": (),
    },
    "tests/models/test_compiling_optimizer.py": {
        "test_a_fit_after_the_end_of_its_schedule_warns": (),
        "test_a_generator_has_no_number_of_steps": (),
        "test_the_optimizer_of_an_earlier_fit_is_freed": (),
    },
    "tests/models/test_distiller.py": {
        "test_a_student_comes_near_its_teacher": (),
        "test_a_teacher_stays_as_it_was_set": (),
        "test_hidden_states_are_compared": ("TokenClassifier",),
        "test_the_teacher_drops_nothing_in_training": (),
    },
    "tests/models/test_encoder.py": {"test_contract": ("False",)},
    "tests/models/test_encoder_values.py": {
        "test_adapters_merge": ("gated",),
        "test_dropout_with_checkpointing_drops_the_same_numbers": ("like_modernbert",),
        "test_every_weight_learns_and_checkpointing_changes_nothing": (
            "disentangled",
            "like_modernbert",
        ),
        "test_files_open_again": ("like_modernbert",),
        "test_half_precision_is_close": ("disentangled_shared", "like_modernbert"),
        "test_heads_are_pruned_or_refused_by_name": ("rotary",),
        "test_masked_tokens_of_packed_rows": (
            "buckets",
            "disentangled",
            "like_modernbert",
            "relative_window",
        ),
        "test_views_compute_the_vectors_of_the_encoder": (
            "alibi",
            "disentangled_shared",
            "like_modernbert",
            "relative_window",
        ),
    },
    "tests/models/test_fill_mask.py": {
        "test_contract": (),
        "test_heads_of_other_forms": ("two dense layers",),
    },
    "tests/models/test_freed_memory.py": {
        "test_a_model_of_each_class_is_freed": (),
        "test_models_trained_one_after_another_are_freed": (),
    },
    "tests/models/test_input_data.py": {"test_every_class_and_view_is_tried": ()},
    "tests/models/test_input_data_batches.py": {
        "test_a_model_of_the_users_own": ("grain.DataLoader", "grain.IterDataset"),
        "test_each_source_of_batches_is_checked": ("PyDataset",),
        "test_long_rows_and_other_keys_of_each_source": ("grain.IterDataset",),
        "test_unchecked_ids_leave_no_weight_without_a_number": (),
    },
    "tests/models/test_multiple_choice.py": {"test_contract": ()},
    "tests/models/test_pretraining.py": {"test_contract": (), "test_memorises_eight_sentences": ()},
    "tests/models/test_pretraining_detector.py": {
        "test_contract": (),
        "test_learns_the_tokens_that_count": (),
    },
    "tests/models/test_pretraining_electra.py": {
        "test_contract": (),
        "test_learns_both": (),
        "test_the_generator_learns_nothing_from_the_detector": (),
    },
    "tests/models/test_question_answering.py": {"test_contract": ()},
    "tests/models/test_round_trips.py": {
        "test_a_task_is_loaded_as_it_was_trained": ("MaskedLM",),
        "test_a_view_is_loaded_as_it_was_trained": ("PackedTask labels",),
        "test_what_was_trained_is_what_is_loaded": (),
    },
    "tests/models/test_sentence_similarity.py": {
        "test_contract": ("several",),
        "test_learns_the_vectors_of_a_teacher": (),
    },
    "tests/models/test_sentence_pairs.py": {
        "test_contract": (),
        "test_format": (),
        "test_in_batch_takes_no_targets": (),
        "test_options_of_vectors_are_trained_and_kept": ("in_batch",),
    },
    "tests/models/test_shared_weights.py": {
        "test_a_new_process_opens_a_users_model": (),
        "test_a_tied_head_is_tied_after_every_operation": (),
        "test_models_of_users": ("tied head on a block",),
    },
    "tests/models/test_task.py": {
        "test_a_frozen_encoder_is_fixed_and_its_head_learns": (),
        "test_contract": ("text-mix-1",),
        "test_format": (),
        "test_optimizer_and_weights_go_on_after_reload": (),
    },
    "tests/models/test_task_views.py": {"test_a_saved_view_goes_on_with_its_loss": ("_chunked",)},
    "tests/models/test_task_views_chunked.py": {
        "test_accuracy_is_of_what_counts": (),
        "test_loss_metrics_and_gradients_are_those_of_the_whole": ("mlm-1-False",),
        "test_mixed_precision": ("mixed_bfloat16",),
    },
    "tests/models/test_task_views_packed.py": {
        "test_learns_and_is_saved": (),
        "test_loss_and_gradients_are_those_of_the_examples": ("tags",),
        "test_mixed_precision": (),
    },
    "tests/models/test_text_classification.py": {"test_contract": ()},
    "tests/models/test_text_fit.py": {
        "test_a_callback_may_set_the_rate": ("LearningRateScheduler",),
        "test_a_text_of_weight_0_is_not_learned": (),
        "test_a_validation_split_leaves_its_rows_out": (),
        "test_class_weights_are_those_of_the_examples": (),
        "test_every_container_gives_the_same_training": (),
        "test_every_later_fit_begins_a_new_schedule": (),
        "test_every_task_trains_on_text_and_predicts": ("TokenClassifier",),
        "test_features_compile_a_task_too": (),
        "test_keras_callbacks_work": (),
        "test_steps_per_epoch_are_kept": (),
        "test_text_trains_as_the_dataset_of_its_examples": (),
        "test_the_length_and_the_pairs_of_the_training_are_kept": (),
        "test_validation_data_of_text_are_measured_in_their_order": (),
    },
    "tests/models/test_text_windows.py": {
        "test_fit_measures_texts_and_remembers": (),
        "test_logits_are_means_over_windows": (),
        "test_one_warning_counts_the_texts_that_are_cut": (),
        "test_short_texts_are_read_as_before": (),
        "test_vectors_are_means_over_windows": (),
        "test_vectors_of_a_teacher_are_learned_in_windows": (),
    },
    "tests/models/test_token_classification.py": {
        "test_a_token_counts_alike_in_every_batch": (),
        "test_all_tokens_count_without_weights": (),
        "test_contract": (),
        "test_contract_of_a_field": (),
        "test_gradient_of_the_loss": ("True",),
        "test_learns_the_tokens_that_count": (),
        "test_learns_what_follows_what": (),
        "test_texts_with_entities_train_as_their_words": (),
    },
    "tests/models/test_vocabulary_size.py": {
        "test_changes_of_the_model_are_kept": (),
        "test_every_family": (),
        "test_every_task": (),
        "test_normal_rows_are_those_of_a_new_model": (),
    },
    "tests/models/test_with_tokenizer.py": {
        "test_a_task_answers_as_its_predictor": ("SentenceEncoder",),
        "test_text_in_gives_the_same_answer_after_every_way": (),
    },
    "tests/optimization/test_learning_rates.py": {
        "test_against_numpy": ("values2-<lambda>",),
        "test_every_optimizer_scales_its_step": ("adamw",),
        "test_layers_wait_for_their_turn_in_fit": (),
    },
    "tests/optimization/test_saved_optimizers.py": {
        "test_a_loaded_optimizer_goes_on": ("layer rates",)
    },
    "tests/predictor/test_dispatch.py": {
        "test_a_call_is_what_the_model_is_for": ("tags",),
        "test_nothing_beside_a_text_changes_its_answer": ("tags",),
    },
    "tests/predictor/test_real_weights.py": {
        "test_a_question_alone_has_the_answer_it_has_among_others": (),
        "test_nothing_beside_a_text_changes_its_answer": (),
        "test_the_order_of_the_labels_changes_no_answer": (),
    },
    "tests/resume/test_callbacks.py": {
        "test_a_signal_ends_the_epoch_and_the_run_can_go_on": ("15-False",),
        "test_saves_every_so_often_and_at_the_end": ("2-expected1",),
    },
    "tests/resume/test_checkpoint.py": {
        "test_failing_or_killed_at_every_point_of_saving": ("False",),
        "test_layout": (),
    },
    "tests/resume/test_exact_resume.py": {
        "test_at_every_step": (),
        "test_at_every_step_with_other_optimizers": ("adam",),
        "test_loss_scale": (),
        "test_within_an_accumulated_step": ("accumulation",),
    },
    "tests/test_architecture.py": {
        "test_a_key_that_is_twice_in_json_is_refused_everywhere": (),
        "test_importing_the_library_loads_no_framework_but_the_backend": (),
        "test_imports_go_down_only": (),
        "test_no_imports_run_in_a_circle": (),
    },
    "tests/test_cli.py": {
        "test_a_name_of_a_preset": (),
        "test_a_prompt_is_of_vectors": (),
        "test_a_threshold_is_of_questions": (),
        "test_a_variant": (),
        "test_convert_there_and_back": (),
        "test_predict_as_the_folder_says": (),
        "test_verify_finds_a_difference": (),
    },
    "tests/test_examples.py": {"test_the_quick_form_runs": ()},
    "tests/test_finetuning_page.py": {"test_python_blocks_run": ()},
    "tests/test_fit_page.py": {"test_the_code_of_the_page_runs": ()},
    "tests/test_hooks.py": {"test_the_writers_are_imported_at_the_first_export": ()},
    "tests/test_loading.py": {"test_a_preset_name_without_weights_is_an_encoder": ()},
    "tests/test_migration.py": {
        "test_our_blocks_run": (),
        "test_the_line_opens_what_the_class_opened": (),
    },
    "tests/test_new_family.py": {
        "test_it_learns": (),
        "test_positions_matter_and_padding_does_not": (),
    },
    "tests/test_new_task.py": {"test_it_learns_from_strings_and_answers": ()},
    "tests/test_outputs.py": {"test_a_watched_process": ()},
    "tests/test_presets.py": {
        "test_a_key_of_a_recipe_takes_the_weights_of_a_handle": ("hf://someone/tiny-teacher",),
        "test_a_name_stands_for_its_published_checkpoint": ("handle1",),
        "test_every_task_opens_by_a_name": ("SentenceEncoder",),
        "test_random_weights_are_asked_for_in_words": (),
    },
    "tests/test_quickstart.py": {
        "test_the_quickstart_prints_what_it_says": (),
        "test_the_tasks_print_what_the_page_says": (),
    },
    "tests/test_readme.py": {
        "test_python_blocks_run": ("pretraining.md",),
        "test_shell_blocks_are_accepted": (),
    },
    "tests/test_reference.py": {"test_the_examples_print_what_the_page_says": ()},
    "tests/test_registration.py": {"test_saved_models_open_in_a_new_process": ()},
    "tests/test_sharing_page.py": {"test_the_page": ()},
    "tests/test_sklearn.py": {
        "test_a_classifier_learns_labels_of_any_kind": (),
        "test_a_regressor_learns_the_scale_of_its_numbers": (),
        "test_cross_validation_and_grid_search": (),
        "test_long_texts_are_read_in_windows": (),
        "test_pairs_are_two_columns": (),
        "test_values_of_a_step_in_a_pipeline_are_tried": (),
        "test_vectors_feed_a_pipeline": (),
    },
    "tests/training/tasks/test_sentence_similarity_pair_labels.py": {
        "test_the_head_is_kept": ("no_pooler",)
    },
    "tests/training/tasks/test_text_classification.py": {
        "test_heads_are_those_of_their_family": ("albert-False",)
    },
    "tests/training/test_dry_run.py": {
        "test_a_folder_that_the_run_would_refuse": (),
        "test_a_model_that_is_larger_than_the_machine": (),
        "test_parameters_are_those_of_the_model": ("values0",),
        "test_the_files_of_a_run_are_listed": (),
        "test_the_kernel_of_attention_is_that_of_the_encoder": (),
    },
    "tests/training/test_evaluate.py": {
        "test_what_the_run_was_measured_on_gives_the_same": ("text_classification",)
    },
    "tests/training/test_finetune.py": {
        "test_a_random_field_over_tags": (),
        "test_a_seed_that_fails_is_named": (),
        "test_a_student_and_its_teacher": (),
        "test_all_seeds_fail": (),
        "test_every_task": ("text_classification",),
        "test_more_seeds_extend_a_run_and_nothing_is_trained_twice": (),
        "test_other_ways_to_train": (),
        "test_tags_of_several_sentences_in_a_row": (),
    },
    "tests/training/test_finetune_data.py": {"test_long_texts_of_a_recipe": ()},
    "tests/training/test_finetune_dry_run.py": {
        "test_examples_and_steps_are_those_of_the_run": ("sentence_similarity",)
    },
    "tests/training/test_finetune_seed.py": {
        "test_a_killed_run_goes_on_exactly": (),
        "test_a_signal_stops_after_a_checkpoint": (),
        "test_a_task_is_built_by_the_values_of_its_recipe": (),
        "test_an_unknown_metric_is_said_once_and_can_be_corrected": (),
        "test_each_layer_has_its_rate": (),
        "test_fit_of_text_with_the_same_values_is_the_same_training": (),
        "test_steps_patience_and_frozen_encoders": (),
    },
    "tests/training/test_finetuned_model.py": {
        "test_a_plain_checkpoint_is_known_by_its_class": (),
        "test_a_run_brings_its_values": (),
    },
    "tests/training/test_kill.py": {},
    "tests/training/test_last_steps.py": {
        "test_a_place_that_cannot_be_written": (),
        "test_a_step_that_fails_takes_no_other_with_it": (
            "pretrain-measurement",
            "pretrain-picture",
        ),
    },
    "tests/training/test_names.py": {
        "test_a_run_whose_name_is_markup": (),
        "test_examples_whose_name_is_not_utf8": (),
        "test_what_is_printed": (),
    },
    "tests/training/test_predict.py": {
        "test_masks_are_filled_by_a_pretraining_run": (),
        "test_predictions_need_no_metrics": (),
        "test_rows_of_every_task": ("sentence_similarity", "token_classification"),
        "test_tables_of_questions_and_choices": (),
        "test_the_official_form_of_every_task": ("sentence_similarity",),
    },
    "tests/training/test_pretrain.py": {
        "test_a_model_learns": (),
        "test_averaged_weights_are_saved_also_when_only_the_end_is_missing": (),
        "test_numbers_that_are_not_finite": (),
        "test_tensorboard": (),
        "test_validation_text_smaller_than_a_batch": (),
        "test_values": (),
    },
    "tests/training/test_pretrain_families.py": {"test_from_a_text_to_predictions": ()},
    "tests/training/test_setup.py": {"test_a_trillion_parameters_take_no_memory": ()},
    "tests/training/test_training_loop.py": {
        "test_a_signal_ends_a_training_after_a_checkpoint": (),
        "test_in_fit_the_steps_are_numbered_through": (),
    },
}


def _joined(*tables: Tests) -> Tests:
    """Return one table with the entries of several tables; a later table wins."""
    files = {file for table in tables for file in table}
    return {file: {k: v for t in tables for k, v in t.get(file, {}).items()} for file in files}


SLOW: dict[str, Tests] = {
    "tensorflow": _joined(_ON_PYTORCH_ALONE, PAGES, TENSORFLOW, NOT_ON_TENSORFLOW),
    "torch": _joined(PAGES, TORCH),
    "jax": _joined(_ON_PYTORCH_ALONE, PAGES, JAX, NOT_ON_JAX),
}
