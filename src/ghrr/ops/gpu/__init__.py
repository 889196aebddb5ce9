"""Kernels for a GPU, compiled by triton, which comes with PyTorch's builds for GPUs.

``products`` takes tensors and launches kernels. Importing it imports triton, so :mod:`ghrr.ops.dispatch` does it at the
first call of a kernel. Kernels are compiled at their first launch and stored on disk.
"""
