"""Programs of SavedModels. Each module imports TensorFlow in its first lines."""
