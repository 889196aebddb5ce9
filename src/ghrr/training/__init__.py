"""Parts of training loops, shared by all that train: folders of runs, checkpoints, recorded steps, early stopping.

A loop itself is short, and each trainer has its own. What is easy to get wrong is here: a folder that two processes
write, a checkpoint that does not fit, a CUDA graph, a precision that stays changed.
"""

from ghrr.training.checkpoint import checkpoint_tensors, restore_module, restore_optimizer
from ghrr.training.folder import new_folder
from ghrr.training.steps import replay_as_graph, set_learning_rate, tf32_products
from ghrr.training.stopping import EarlyStopping

__all__ = [
    "EarlyStopping",
    "checkpoint_tensors",
    "new_folder",
    "replay_as_graph",
    "restore_module",
    "restore_optimizer",
    "set_learning_rate",
    "tf32_products",
]
