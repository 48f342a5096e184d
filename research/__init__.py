"""Scripts of the published figures: `python -m research` lists the studies."""
