"""Small images and small backbones for the tests of fine-tuning."""

from __future__ import annotations

import json
from io import BytesIO

import numpy as np
from PIL import Image

SIDE = 16

PROCESSOR = {
    "image_processor_type": "ViTImageProcessor",
    "do_resize": True,
    "size": {"height": SIDE, "width": SIDE},
    "resample": 2,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": [0.5, 0.4, 0.6],
    "image_std": [0.5, 0.25, 0.4],
}

TOKENS = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": SIDE,
    "patch_size": 4,
}


def striped(label, rng):
    """Noisy stripes in the direction of their class, of four: no color tells them apart, and no pixel does."""
    y, x = np.mgrid[:SIDE, :SIDE]
    along = (x, y, x + y, x - y)[label]
    wave = 60 * np.sin(along * 2 * np.pi / 5 + rng.uniform(0, 2 * np.pi))
    return Image.fromarray(np.clip(128 + wave[..., None] + rng.normal(0, 25, (SIDE, SIDE, 3)), 0, 255).astype(np.uint8))


def stripes(count, seed=0):
    """Images of four classes in turn, and their labels."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 4
    return [striped(label, rng) for label in labels], labels


def stored(image, kind="PNG"):
    """An image as the bytes of a file."""
    held = BytesIO()
    image.save(held, kind)
    return held.getvalue()


def write_stripes(root, count, seed=0):
    """A folder of images, a folder a class."""
    for at, (image, label) in enumerate(zip(*stripes(count, seed), strict=True)):
        folder = root / f"class{label}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{at:03}.png").write_bytes(stored(image))
    return root


def model_of(kind):
    """A small random model of a family."""
    import torch
    import transformers as t

    torch.manual_seed(0)
    stages = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"}
    text = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    text |= {"vocab_size": 9, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
    return {
        "resnet": lambda: t.ResNetModel(t.ResNetConfig(**stages)),
        "mobilenet_v1": lambda: t.MobileNetV1Model(t.MobileNetV1Config(depth_multiplier=0.1, min_depth=4)),
        "mobilenet_v2": lambda: t.MobileNetV2Model(t.MobileNetV2Config(depth_multiplier=0.1)),
        "vit": lambda: t.ViTModel(t.ViTConfig(**TOKENS)),
        "vit without a pooler": lambda: t.ViTForImageClassification(t.ViTConfig(**TOKENS)),
        "dinov2": lambda: t.Dinov2Model(t.Dinov2Config(**TOKENS)),
        "convnext": lambda: t.ConvNextModel(t.ConvNextConfig(hidden_sizes=[8, 12], depths=[1, 1], num_stages=2)),
        "poolformer": lambda: t.PoolFormerModel(
            t.PoolFormerConfig(
                hidden_sizes=[8, 12],
                depths=[1, 1],
                num_encoder_blocks=2,
                patch_sizes=[7, 3],
                strides=[4, 2],
                padding=[2, 1],
            )
        ),
        "clip": lambda: t.CLIPModel(
            t.CLIPConfig(vision_config=TOKENS | {"projection_dim": 6}, text_config=text, projection_dim=6)
        ),
        "siglip": lambda: t.SiglipModel(t.SiglipConfig(vision_config=TOKENS, text_config=text)),
        "levit": lambda: t.LevitModel(
            t.LevitConfig(
                image_size=64,
                hidden_sizes=[16, 16, 16],
                num_attention_heads=[2, 2, 2],
                depths=[1, 1, 1],
                key_dim=[4, 4, 4],
            )
        ),
    }[kind]().eval()


def write_small_resnet(folder):
    """A folder of transformers with a small random ResNet, which takes images as large as they are."""
    import torch
    import transformers as t

    config = t.ResNetConfig(embedding_size=8, hidden_sizes=[8, 12], depths=[1, 1], layer_type="basic")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        t.ResNetModel(config).save_pretrained(folder)
    processor = {"image_processor_type": "ConvNextImageProcessor", "do_resize": False, "do_rescale": True}
    processor |= {"rescale_factor": 1 / 255, "do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.25] * 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder


def write_backbone(folder, kind="resnet", **processor):
    """A folder of transformers with a small random model."""
    model_of(kind).save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR | processor))
    return folder


def shade(value):
    """A small image of one color, by which the tests know it."""
    return stored(Image.new("RGB", (4, 4), (value, 0, 255 - value)))


def put(path, value):
    """Write the image of a shade."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(shade(value))


def shades(table, rows=None):
    """The shade of each image."""
    rows = range(len(table)) if rows is None else rows
    return [np.asarray(table.store.read(row))[0, 0, 0] for row in rows]


def write_lists(folder, train, base, query):
    """The list files of DeepHash."""
    folder.mkdir(parents=True, exist_ok=True)
    for file, lines in (("train", train), ("database", base), ("test", query)):
        (folder / f"{file}.txt").write_text("".join(f"{line}\n" for line in lines))


def python2_string(data):
    """A byte string as Python 2's cPickle writes it in protocol 2."""
    if len(data) < 256:
        return b"U" + bytes([len(data)]) + data
    return b"T" + len(data).to_bytes(4, "little") + data


def python2_array(array):
    """A uint8 array as NumPy under Python 2 pickled it."""
    shape = b"".join(b"M" + int(size).to_bytes(2, "little") for size in array.shape)
    return (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + python2_string(b"b") + b"\x87R("
        b"K\x01" + shape + b"\x86cnumpy\ndtype\n" + python2_string(b"u1") + b"K\x00K\x01\x87R"
        b"(K\x03" + python2_string(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        b"\x89" + python2_string(array.tobytes()) + b"tb"
    )


def python2_batch(pixels, labels):
    """A batch of CIFAR-10, byte for byte of the form that the original files have."""
    strings = [b"batch_label", b"training batch 1 of 5", b"labels", b"data", b"filenames", b"a_s_000001.png"]
    about, said, key, data, files, file = map(python2_string, strings)
    numbers = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return b"\x80\x02}(" + about + said + key + numbers + data + python2_array(pixels) + files + b"](" + file + b"eu."


KINDS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def cifar_pixels(rows):
    """Random images, as a batch holds them."""
    return np.random.default_rng(rows).integers(0, 256, (rows, 3072), dtype=np.uint8)


def write_cifar10(folder, rows=4, classes=10):
    """The batches of CIFAR-10, each with an image more than the one before."""
    folder.mkdir(parents=True, exist_ok=True)
    batches = {}
    for at, name in enumerate([*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]):
        pixels, labels = cifar_pixels(rows + at), [(at + row) % classes for row in range(rows + at)]
        (folder / name).write_bytes(python2_batch(pixels, labels))
        batches[name] = pixels, labels
    names = b"".join(python2_string(name.encode()) for name in KINDS)
    (folder / "batches.meta").write_bytes(b"\x80\x02}(" + python2_string(b"label_names") + b"](" + names + b"eu.")
    return batches


def write_nuswide(root, rows, images):
    """25 labels over some rows, label k on fewer of them than label k - 1; the images that the rows name in turn."""
    rng = np.random.default_rng(0)
    hot = np.zeros((rows, 25), np.uint8)
    for label in range(25):
        hot[rng.permutation(rows)[: rows - rows // 30 * label], label] = 1
    hot[[5, 9]] = 0
    hot[5, 24] = 1  # an image with a rare label only, and one with none
    names = [f"label{(7 * label) % 25:02}" for label in range(25)]
    (root / "Groundtruth" / "AllLabels").mkdir(parents=True)
    for label, name in enumerate(names):
        lines = "".join(f"{value}\r\n" for value in hot[:, label])
        (root / "Groundtruth" / "AllLabels" / f"Labels_{name}.txt").write_text(lines)
    (root / "ImageList").mkdir()
    files = [f"actor\\{row % images:04}_12.jpg" for row in range(rows)]
    (root / "ImageList" / "Imagelist.txt").write_text("".join(f"{file} \r\n" for file in files))
    for at in range(images):
        put(root / "Flickr" / "actor" / f"{at:04}_12.jpg", at)
    return hot, names


WORDS = ("n01440764", "n01443537", "n01484850")


def write_imagenet(root, train, val):
    """Three classes of ImageNet with so many images each in the training and the validation set."""
    at = 0
    for label in WORDS:
        for part, count in (("train", train), ("val", val)):
            for row in range(count):
                put(root / part / label / f"{label}_{row:03}.JPEG", at % 256)
                at += 1
    return root
