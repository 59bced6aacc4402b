"""Training: the paper's Algorithm 1 with Lightning, on one process or many, with checkpoints that survive a kill."""

from lbhash.training.batches import ShuffledBatches, TrainingRows
from lbhash.training.checkpoints import has_checkpoint
from lbhash.training.distributed import is_main_process
from lbhash.training.hardware import PRECISIONS, Precision, check_machine, cpu_settings, draw_from
from lbhash.training.monitor import MONITORS, Monitor
from lbhash.training.schedule import SCHEDULES, Schedule
from lbhash.training.train import Trained, train

__all__ = ["MONITORS", "PRECISIONS", "SCHEDULES", "Monitor", "Precision", "Schedule"]
__all__ += ["ShuffledBatches", "Trained", "TrainingRows", "check_machine", "cpu_settings", "draw_from"]
__all__ += ["has_checkpoint", "is_main_process", "train"]
