"""Kernels for the CPU, compiled by numba. Install it with ``pip install 'ghrr[fast]'``.

``products``, ``unitary`` and ``encoding`` take tensors and call the compiled loops of the other modules, which read and
write memory by its address. Importing any of them imports numba, so :mod:`ghrr.ops.dispatch` does it at the first call
of a kernel. The loops are compiled at their first call and stored on disk.
"""
