"""What a trained HRED is asked for: suggestions, scores, completions, explanations."""
