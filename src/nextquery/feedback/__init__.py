"""What was shown, taken and dismissed: reports, comparisons, and models that learn from it."""
