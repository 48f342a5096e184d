"""What makes decoding fast on a CPU: packed matrices, the output layer, memory."""
