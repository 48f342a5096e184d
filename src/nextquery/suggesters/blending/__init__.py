"""A trained model and count models as one."""
