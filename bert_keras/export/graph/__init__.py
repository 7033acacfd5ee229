"""What a SavedModel computes, in TensorFlow: each module is TensorFlow from its first line."""
