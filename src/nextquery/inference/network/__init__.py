"""HRED's steps on NumPy arrays: what serving computes where training has PyTorch."""
