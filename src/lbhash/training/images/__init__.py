"""Fine-tuning: a backbone learns together with the head, from images."""

from lbhash.training.images.augment import Augmentation, draws_of
from lbhash.training.images.dataset import ImageRows
from lbhash.training.images.finetune import FineTuning, check_images, fine_tuning
from lbhash.training.images.model import BATCH_NORMS, BatchNorm, ImageModel, check_batch_norm
from lbhash.training.images.preprocessing import PixelValues, input_size, resized

__all__ = ["BATCH_NORMS", "Augmentation", "BatchNorm", "FineTuning", "ImageModel", "ImageRows", "PixelValues"]
__all__ += ["check_batch_norm", "check_images", "draws_of", "fine_tuning"]
__all__ += ["input_size", "resized"]
