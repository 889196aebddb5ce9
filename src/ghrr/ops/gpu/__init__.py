"""Kernels for a GPU, compiled by triton, which comes with PyTorch's builds for GPUs.

``products``, ``phases`` and ``rows`` take tensors and launch kernels. Importing any of them imports triton, so
:mod:`ghrr.ops.dispatch` does it at the first call of a kernel. Kernels are compiled at their first launch and stored on
disk.
"""
