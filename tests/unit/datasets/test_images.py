"""Other sets of images: Fashion-MNIST, CIFAR-10 in its versions, and folders of images, found, read and refused."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import sys
import tarfile
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from clew_agent.datasets.drawing import as_row
from clew_agent.datasets.known.cifar10 import BATCHES
from clew_agent.datasets.known.mnist import IDX_STEMS
from clew_agent.datasets.load import load
from clew_agent.datasets.search import Search, available
from clew_shared.base.image_files import upright
from clew_shared.base.problem import ProblemError
from clew_shared.data_sets import data_set_of
from tests.idx import format_idx

Pixels = npt.NDArray[np.uint8]


def refusal(name: str | Path, search: Search | None = None) -> str:
    with pytest.raises(ProblemError) as caught:
        load(str(name), search or Search())
    return str(caught.value)


def write_idx(folder: Path, first: int) -> Path:
    """Images like MNIST's; ``first`` is the label of the first one."""
    folder.mkdir(parents=True, exist_ok=True)
    for stem, shape in zip(IDX_STEMS, ((12, 28, 28), (12,), (5, 28, 28), (5,)), strict=True):
        (folder / stem).write_bytes(format_idx(np.full(shape, first, np.uint8)))
    return folder


# CIFAR-10.


@pytest.fixture
def batches() -> dict[str, tuple[Pixels, list[int]]]:
    """Three images in each batch, as the files have them: red, green and blue one after the other."""
    draw = np.random.default_rng(3)
    return {name: (draw.integers(0, 256, (3, 3072), dtype=np.uint8), [0, 9, 4]) for name in BATCHES}


def as_binary(x: Pixels, labels: list[int]) -> bytes:
    return b"".join(bytes([label]) + row.tobytes() for row, label in zip(x, labels, strict=True))


def write_archive(path: Path, folder: str, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(f"{folder}/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def write_all(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def test_cifar_10_is_read_from_its_archive_and_from_what_that_unpacks_to(
    tmp_path: Path, batches: dict[str, tuple[Pixels, list[int]]]
) -> None:
    binary = {name: as_binary(*batch) for name, batch in batches.items()}
    places = [
        write_archive(tmp_path / "cifar-10-binary.tar.gz", "cifar-10-batches-bin", binary | {"readme.html": b"x"}),
        write_all(tmp_path / "cifar-10-batches-bin", binary),
    ]
    for place in places:
        data = load(str(place), Search())
        assert (data.name, data.classes, data.image_shape) == ("cifar10", 10, (32, 32, 3))
        assert (len(data.train), len(data.validation), len(data.test)) == (12, 3, 3)
        np.testing.assert_array_equal(data.train.y, [0, 9, 4] * 4)
        second = data.train.x[4].reshape(32, 32, 3) * 256
        planes = batches["data_batch_2.bin"][0][1].reshape(3, 32, 32)
        np.testing.assert_array_equal(second[..., 1], planes[1], "green")
        np.testing.assert_array_equal(
            data.test.x[0].reshape(32, 32, 3)[5, 7] * 256, batches["test_batch.bin"][0][0][[167, 1191, 2215]]
        )


def test_cifar_10_with_something_wrong_is_described(
    tmp_path: Path, batches: dict[str, tuple[Pixels, list[int]]]
) -> None:
    good = {name: as_binary(*batch) for name, batch in batches.items()}
    x = batches["test_batch.bin"][0]
    spoiled = {
        "expected 0 to 9": as_binary(x, [0, 119, 4]),
        "expected 3,073 for each image": as_binary(x, [0, 9, 4])[:-1],
    }
    for number, (words, content) in enumerate(spoiled.items()):
        folder = write_all(tmp_path / str(number), good | {"test_batch.bin": content})
        assert words in refusal(folder / "data_batch_1.bin"), words
        archive = write_archive(tmp_path / f"cifar-10-{number}.tar.gz", "x", good | {"test_batch.bin": content})
        assert f"{archive}: test_batch" in refusal(archive)
    (tmp_path / "0" / "data_batch_3.bin").unlink()
    assert "data_batch_3.bin is missing beside it" in refusal(tmp_path / "0")
    assert "without CIFAR-10's data_batch_1" in refusal(write_archive(tmp_path / "cifar-10-x.tar.gz", "x", {"y": b""}))
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(b"no archive")
    assert "not a readable archive" in refusal("cifar10", Search(folders=(tmp_path,)))


def test_the_pickles_of_cifar_10_are_refused_with_the_file_to_take(tmp_path: Path) -> None:
    python = {name.removesuffix(".bin"): pickle.dumps({b"labels": [1]}) for name in BATCHES}
    archive = write_archive(tmp_path / "cifar-10-python.tar.gz", "cifar-10-batches-py", python)
    folder = write_all(tmp_path / "cifar-10-batches-py", python)
    for place in (archive, folder, folder / "data_batch_2", "cifar10"):
        assert "Take cifar-10-binary.tar.gz" in refusal(place, Search(folders=(tmp_path,)))


# By name.


def test_each_name_finds_its_own_files_and_no_others(
    tmp_path: Path, batches: dict[str, tuple[Pixels, list[int]]]
) -> None:
    """Fashion-MNIST's files have the names of MNIST's; the folder says which they are."""
    search = Search(folders=(tmp_path,))
    assert available(search) == ("digits",)
    fashion = write_idx(tmp_path / "fashion-mnist", 7)
    assert available(search) == ("digits", "fashion-mnist")
    assert available(Search(own=fashion)) == ("digits", "fashion-mnist"), "not for MNIST"
    write_idx(tmp_path, 3)
    binary = {name: as_binary(*one) for name, one in batches.items()}
    write_archive(tmp_path / "cifar-10-binary.tar.gz", "b", binary)
    assert available(search) == ("mnist", "digits", "fashion-mnist", "cifar10")
    found = {name: load(name, search) for name in ("mnist", "fashion-mnist", "cifar10")}
    assert [data.name for data in found.values()] == list(found)
    assert [int(found[name].train.y[0]) for name in ("mnist", "fashion-mnist")] == [3, 7]
    named = {name: data.class_names[:2] for name, data in found.items()}
    assert named == {"mnist": (), "fashion-mnist": ("T-shirt/top", "Trouser"), "cifar10": ("airplane", "automobile")}
    assert {len(data.class_names) for data in found.values()} == {0, 10}
    assert load(str(fashion), Search()).name == "fashion-mnist"
    own = tmp_path / "fashion-mnist.npz"
    own.touch()
    assert "'mnist' was not found" in refusal("mnist", Search(own=own)), "a file of another set is not taken for MNIST"


@pytest.mark.parametrize(
    ("name", "words"), [("fashion-mnist", "zalandoresearch/fashion-mnist"), ("cifar10", "~kriz/cifar.html")]
)
def test_a_missing_set_says_where_it_is_published_and_where_to_put_it(tmp_path: Path, name: str, words: str) -> None:
    text = refusal(name, Search(folders=(tmp_path,)))
    for part in (words, str(tmp_path), "copy it into one of these folders", "digits"):
        assert part in text


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("", ""),
        ("cifar10", "cifar10"),
        ("/data/own.npz", "mnist"),
        ("site:/data/mnist.pkl.gz", "mnist"),
        ("/data/mnist/", "mnist"),
        ("/data/train-images-idx3-ubyte", "mnist"),
        ("/fashion-mnist/mnist.npz", "mnist"),
        ("C:\\data\\fashion_mnist.npz", "fashion-mnist"),
        ("/data/fashion-mnist/train-images-idx3-ubyte.gz", "fashion-mnist"),
        ("/data/FashionMNIST/raw/train-images-idx3-ubyte", "fashion-mnist"),
        ("/data/cifar-10-python.tar.gz", "cifar10"),
        ("/data/cifar-10-batches-bin", "cifar10"),
        ("/data/images.tgz", "cifar10"),  # no other set is read from an archive
        ("/data/data_batch_1", "cifar10"),
        ("/data/cifar-100-python", "cifar-100-python"),
        ("/data/flowers", "flowers"),
        ("/data/cards.csv.gz", "cards.csv.gz"),
    ],
)
def test_goals_are_judged_by_the_set_that_a_path_names(path: str, name: str) -> None:
    assert data_set_of(path) == name


# Folders of images.


def draw_images(folder: Path, sizes: dict[str, tuple[int, int]], mode: str = "RGB", count: int = 6) -> Path:
    """``count`` images for each class: the first class is red, or light grey, the second blue, or dark grey."""
    for number, (name, size) in enumerate(sizes.items()):
        (folder / name).mkdir(parents=True)
        colour: Any = ((250, 0, 0), (0, 0, 250))[number % 2] if mode == "RGB" else (200, 40)[number % 2]
        for index in range(count):
            end = "jpg" if index % 2 and max(size) > 32 else "png"
            Image.new(mode, size, colour).save(folder / name / f"{index}.{end}", quality=95)
    return folder


def test_a_folder_for_each_class_is_a_data_set(tmp_path: Path) -> None:
    folder = draw_images(tmp_path / "flowers", {"rose": (90, 60), "iris": (50, 50)}, count=12)
    (folder / "notes").mkdir()
    (folder / "rose" / ".hidden.png").touch()
    (folder / "readme.txt").touch()
    data = load(str(folder), Search())
    assert (data.name, data.classes, data.image_shape) == ("flowers", 2, (32, 32, 3))
    assert data.class_names == ("iris", "rose")
    assert (len(data.train), len(data.validation), len(data.test)) == (16, 4, 4)
    assert data.train.y.tolist() == [0, 1] * 8, "the classes take turns"
    iris, rose = (data.test.x[place].reshape(32, 32, 3) * 256 for place in (0, 1))
    assert (iris[..., 2] > 240).all(), "blue: the classes are in the order of their names"
    assert (rose[..., 0] > 240).all()
    first = data.sha256
    Image.new("RGB", (9, 9)).save(folder / "rose" / "0.png")
    assert load(str(folder), Search()).sha256 != first


@pytest.mark.unix("a name of any bytes")
def test_a_class_has_a_name_that_can_be_written_whatever_its_folder_is_called(tmp_path: Path) -> None:
    folder = draw_images(tmp_path / "odd", {"a\nb": (9, 9), os.fsdecode(b"gr\xfcn"): (9, 9), "x" * 200: (9, 9)})
    names = load(str(folder), Search()).class_names
    assert names == ("a\ufffdb", "gr\ufffdn", "x" * 60)
    assert [name.encode().decode() for name in names] == list(names)


def test_small_grey_images_of_one_size_stay_as_they_are(tmp_path: Path) -> None:
    data = load(str(draw_images(tmp_path / "small", {"a": (20, 28), "b": (20, 28)}, "L")), Search())
    assert data.image_shape == (28, 20, 1)
    assert (data.train.x * 256).tolist() == [[200] * 560, [40] * 560] * 4


def test_an_image_lies_as_its_camera_says_and_loses_its_sides(tmp_path: Path) -> None:
    folder = draw_images(tmp_path / "photos", {"a": (64, 64), "b": (64, 64)})
    wide = Image.new("RGB", (128, 64), (0, 255, 0))
    wide.paste((255, 255, 255), (32, 0, 96, 32))  # the upper half of the middle square is white
    turned = Image.Exif()
    turned[0x0112] = 3  # upside down
    wide.save(folder / "a" / "0.png", exif=turned)
    first = load(str(folder), Search()).train.x[0].reshape(32, 32, 3) * 256
    assert first[4, 4].tolist() == [0, 255, 0]
    assert first[28, 4].tolist() == [255, 255, 255]


def test_images_that_cannot_be_used_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "holds no data set" in refusal(tmp_path)
    one = draw_images(tmp_path / "one", {"a": (9, 9)})
    assert "expected a folder of images for each of 2 or more classes, found 1" in refusal(one)
    few = draw_images(tmp_path / "few", {"a": (9, 9), "b": (9, 9)}, count=5)
    assert "a class needs 6 images or more, and it has 5" in refusal(few)
    bad = draw_images(tmp_path / "bad", {"a": (9, 9), "b": (9, 9)})
    whole = (bad / "b" / "3.png").read_bytes()
    for content in (b"", b"no image", whole[:-30]):
        (bad / "b" / "3.png").write_bytes(content)
        text = refusal(bad)
        assert "3.png" in text
        assert "not a readable image" in text
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.delitem(sys.modules, "clew_agent.datasets.image_folder")
    monkeypatch.delattr("clew_agent.datasets.image_folder")
    assert "read with Pillow, which this Python environment lacks" in refusal(few)


def draw_mixed(folder: Path) -> Path:
    """Two classes with an image in every form that people keep them in, each half dark and half light."""
    half = np.zeros((8, 8), np.uint8)
    half[:, 4:] = 200
    grey = Image.fromarray(half)
    colour = grey.convert("RGB")
    forms: dict[str, tuple[Image.Image, dict[str, Any]]] = {
        "1bit.png": (grey.convert("1", dither=Image.Dither.NONE), {}),
        "8bit.png": (grey, {}),
        "16bit.png": (Image.fromarray(half.astype(np.uint16) * 300), {}),
        "palette.png": (colour.convert("P"), {}),
        "cmyk.jpg": (colour.convert("CMYK"), {"quality": 95}),
        "plain.JFIF": (colour, {"format": "JPEG", "quality": 95}),
        "float.tif": (Image.fromarray(half.astype(np.float32) / 1000), {}),
        "16bit.tiff": (Image.fromarray(half.astype(np.uint16)), {}),
        "moving.gif": (grey, {"save_all": True, "append_images": [Image.new("L", (8, 8))]}),
        "lossless.webp": (colour, {"lossless": True}),
        "portable.pgm": (grey, {}),
    }
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        for file, (image, how) in forms.items():
            image.save(folder / name / file, **how)
    return folder


def test_every_form_of_image_shows_the_same_picture_and_what_was_converted_is_said(tmp_path: Path) -> None:
    folder = draw_mixed(tmp_path / "pets")
    data = load(str(folder), Search())
    rows = np.concatenate([part.x for part in (data.train, data.validation, data.test)]) * 256
    pictures = rows.reshape(-1, 8, 8, 3)
    assert len(pictures) == 22
    assert (pictures[:, :, :3] < 20).all()
    assert (pictures[:, :, 5:] > 180).all()
    assert data.notes == (
        "Scaled 6 images of more than 8 bits, each from its smallest to its largest value, to 8 bits.",
        "Took the first frame of 2 images with several.",
    )


@pytest.mark.parametrize(("mode", "kind"), [("I;16", "uint16"), ("I", "int32"), ("F", "float32")])
def test_a_deep_image_is_scaled_without_eight_bytes_for_each_of_its_pixels(mode: str, kind: str) -> None:
    """They are values of one image all the same, also where it is taken in strips, one of which is not full."""
    values = np.arange(3000 * 4001, dtype=np.int64).reshape(4001, 3000) % 60_000
    image = Image.fromarray(values.astype(kind))
    assert image.mode == mode
    tracemalloc.start()
    found = np.asarray(upright(image))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(found, np.rint(values * (255 / 59_999)))
    assert peak < 8 * values.size


@pytest.mark.unix("a FIFO")
def test_hidden_folders_are_no_classes_and_what_is_left_out_is_counted_with_its_reason(tmp_path: Path) -> None:
    folder = draw_images(tmp_path / "pets", {"cat": (9, 9), "dog": (9, 9), ".ipynb_checkpoints": (9, 9)})
    draw_images(folder, {"__MACOSX": (9, 9)})
    (folder / "cat" / ".ipynb_checkpoints").mkdir()
    os.mkfifo(folder / "cat" / "a.png")
    for name in ("cat/1.heic", "cat/2.HEIC", "dog/notes.txt", "dog/LICENSE", "front.png"):
        (folder / name).touch()
    data = load(str(folder), Search())
    assert data.class_names == ("cat", "dog")
    assert len(data.train) + len(data.validation) + len(data.test) == 12
    assert " ".join(data.notes) == (
        "Left out 6 files of pets: 2 in a format that is not read (.heic; save them as PNG or JPEG),"
        " 1 beside the folders of the classes, 1 not regular files, 1 that are no images (.txt),"
        " 1 that are no images (no ending)."
        " Folders that are hidden, or that systems make, are no classes: .ipynb_checkpoints, __MACOSX."
    )


@pytest.mark.parametrize(
    "name",
    [
        *("@eaDir", "#recycle", "#snapshot", "@Recycle", "System Volume Information", "$RECYCLE.BIN", "RECYCLER"),
        *("lost+found", "LOST.DIR", "__MACOSX", "__pycache__", ".ipynb_checkpoints", ".Trash-1000", "found.000"),
        "~snapshot",
    ],
)
def test_a_folder_that_a_system_makes_is_no_class_and_that_is_said(name: str, tmp_path: Path) -> None:
    folder = draw_images(tmp_path / "pets", {"cat": (9, 9), "dog": (9, 9)})
    draw_images(folder, {name: (9, 9)}, count=1)
    draw_images(folder / "cat", {name: (9, 9)}, count=1)
    for file in ("Thumbs.db", ".DS_Store", "desktop.ini", "ehthumbs.db", "._1.png"):
        (folder / "dog" / file).touch()
    data = load(str(folder), Search())
    assert data.class_names == ("cat", "dog")
    assert data.notes == (f"Folders that are hidden, or that systems make, are no classes: {name}.",)


@pytest.mark.parametrize("names", [("train", "test"), ("Training", "val"), ("train", "valid", "test"), ("flowers",)])
def test_folders_with_data_sets_inside_are_named_to_choose_from(names: tuple[str, ...], tmp_path: Path) -> None:
    for name in names:
        draw_images(tmp_path / name, {"cat": (9, 9), "dog": (9, 9)})
    text = refusal(tmp_path)
    assert f"has a folder for each class inside {' and inside '.join(sorted(names))}" in text
    chosen = tmp_path / next((one for one in names if "rain" in one), names[0])
    assert f"Choose the folder that holds the classes, such as {chosen}" in text
    (tmp_path / "front.png").write_bytes((tmp_path / names[0] / "cat" / "0.png").read_bytes())
    assert refusal(tmp_path) == text


@pytest.mark.parametrize("names", [("train", "test"), ("Training", "validation"), ("train", "val", "test")])
def test_sets_without_folders_for_classes_are_no_classes(names: tuple[str, ...], tmp_path: Path) -> None:
    folder = draw_images(tmp_path / "pets", dict.fromkeys(names, (9, 9)))
    text = refusal(folder)
    assert "are named as sets of images, not as classes" in text
    draw_images(folder, {"bus": (9, 9)})
    assert load(str(folder), Search()).classes == len(names) + 1


def test_a_folder_of_images_that_are_not_read_is_not_called_empty(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.heic").touch()
    assert "2 in a format that is not read (.heic; save them as PNG or JPEG)" in refusal(tmp_path)


@pytest.mark.parametrize("content", [b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n", b"<svg/>"])
def test_a_program_that_is_called_an_image_is_never_run(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = draw_images(tmp_path / "pets", {"cat": (9, 9), "dog": (9, 9)})
    (folder / "cat" / "3.png").write_bytes(content)
    monkeypatch.setattr("subprocess.Popen", None)
    text = refusal(folder)
    assert (
        "3.png is not a usable data set: it is not a readable image (it has none of the formats that are read)" in text
    )


@pytest.mark.parametrize(
    ("folder", "spelling"),
    [
        ("", "{0}.gz"),
        ("", "{1}"),
        ("", "{1}.gz"),
        ("", "{0}.idx"),
        ("", "{2}.idx.gz"),
        ("archive", "{0}"),
        ("MNIST/raw", "{0}"),
        ("", "{0}/{0}"),
        ("archive", "{1}/{1}"),
    ],
)
def test_mnist_is_found_in_the_spellings_and_folders_in_which_it_is_handed_round(
    folder: str, spelling: str, tmp_path: Path
) -> None:
    plain = write_idx(tmp_path / "plain", 3)
    here = tmp_path / "here"
    for stem in IDX_STEMS:
        name = spelling.format(stem, stem.replace("-idx", ".idx"), stem.partition("-idx")[0])
        target = here / folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        content = (plain / stem).read_bytes()
        target.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    data = load(str(here), Search())
    assert (data.name, len(data.train), len(data.test)) == ("mnist", 10, 5)
    first = next(path for path in here.rglob("*train-images*") if path.is_file())
    assert load(str(first), Search()).name == "mnist"


# --- Drawings and image files as rows of a data set -------------------------------------------------------------------

MNIST = (28, 28, 1)


def stroke(height: int, width: int, *box: int) -> npt.NDArray[np.uint8]:
    """White ink in the box (top, bottom, left, right) of a black image."""
    image = np.zeros((height, width, 1), np.uint8)
    top, bottom, left, right = box
    image[top:bottom, left:right] = 255
    return image


def test_an_image_of_the_sets_own_size_is_what_the_set_itself_would_read() -> None:
    image = np.arange(28 * 28, dtype=np.uint8).reshape(28, 28, 1)
    row = as_row(image, MNIST, drawn=False)
    assert row.dtype == np.float32
    assert np.array_equal(row, image.reshape(-1) / 256)


@pytest.mark.parametrize("box", [(2, 62, 5, 25), (50, 110, 80, 100)])
def test_a_drawing_is_scaled_to_twenty_pixels_about_its_centre_of_mass(box: tuple[int, ...]) -> None:
    image = as_row(stroke(112, 112, *box), MNIST, drawn=True).reshape(28, 28)
    rows, columns = np.flatnonzero(image.max(1) > 0.5), np.flatnonzero(image.max(0) > 0.5)
    assert len(rows) == 20
    assert len(columns) == 7
    places = np.arange(28)
    assert abs(image.sum(1) @ places / image.sum() - 13.5) <= 0.5
    assert abs(image.sum(0) @ places / image.sum() - 13.5) <= 0.5
    assert image.max() == pytest.approx(255 / 256)


def test_dark_ink_on_light_paper_is_turned_round_in_grey_and_in_colour() -> None:
    drawn = stroke(60, 90, 10, 50, 20, 30)
    light = 255 - drawn
    wanted = as_row(drawn, MNIST, drawn=False)
    assert wanted.max() > 0.9
    assert np.allclose(as_row(light, MNIST, drawn=False), wanted)
    assert np.allclose(as_row(np.repeat(light, 3, 2), MNIST, drawn=False), wanted, atol=1 / 256)


def test_nothing_drawn_is_a_black_image() -> None:
    assert not as_row(np.zeros((112, 112, 1), np.uint8), MNIST, drawn=True).any()


def test_a_photograph_for_colour_images_is_the_square_in_its_middle() -> None:
    photo = np.zeros((40, 80, 3), np.uint8)
    photo[:, 20:60] = (200, 100, 50)
    row = as_row(photo, (32, 32, 3), drawn=False).reshape(32, 32, 3)
    assert np.allclose(row, np.array([200, 100, 50]) / 256)
    assert np.allclose(as_row(photo[:, 20:60, :1], (8, 8, 3), drawn=False), 200 / 256)
