"""A finished list as visitors should see it: folded, grouped, diverse, specific, known."""
