"""Models in the tools of the field: PyTerrier pipelines and the Hugging Face Hub."""
