"""Words become numbers: the vocabulary and the batches built with it. No torch here."""
