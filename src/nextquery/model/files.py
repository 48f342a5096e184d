"""The files of a HRED model folder by name, apart so that no torch is imported to know them."""

KIND = "hred"
WEIGHTS = "model.safetensors"
VOCABULARY = "vocabulary.txt"
