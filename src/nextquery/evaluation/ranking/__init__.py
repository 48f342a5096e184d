"""The paper's scenarios: cases, rankers, comparisons, significance."""
