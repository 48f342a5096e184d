"""What docs/experiments.md claims, made again: `scripts/evidence` runs it."""
