"""Fine-tuning: a backbone learns together with the head, from images."""

from lbhash.data.images.corrupt import check_images
from lbhash.training.images.augment import Augmentation, augmentation_numbers
from lbhash.training.images.dataset import ImageRows
from lbhash.training.images.finetune import FineTuning, fine_tuning
from lbhash.training.images.model import BATCH_NORMS, BatchNorm, ImageModel
from lbhash.training.images.preprocessing import PixelValues, input_size, resized
from lbhash.training.images.views import embedded_views

__all__ = ["BATCH_NORMS", "Augmentation", "BatchNorm", "FineTuning", "ImageModel", "ImageRows", "PixelValues"]
__all__ += ["augmentation_numbers", "check_images", "embedded_views", "fine_tuning", "input_size", "resized"]
