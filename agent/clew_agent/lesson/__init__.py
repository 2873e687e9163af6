"""What the file of an exercise imports beside TensorFlow."""
