"""Predictions as TensorFlow graphs, for SavedModels. Each module imports TensorFlow at its top."""
