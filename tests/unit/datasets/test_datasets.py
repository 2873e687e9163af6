"""Data sets: every form gives the same arrays, and no file, however hostile, gives anything but a clear refusal."""

from __future__ import annotations

import ast
import gzip
import io
import math
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from clew_agent.datasets.cache import DataCache
from clew_agent.datasets.dataset import DataSet
from clew_agent.datasets.files import gunzip, read_bytes
from clew_agent.datasets.formats import parse_idx, parse_npy, parse_npz
from clew_agent.datasets.known import digits
from clew_agent.datasets.known.mnist import IDX_STEMS
from clew_agent.datasets.lab_pickle import parse_pickle
from clew_agent.datasets.load import load
from clew_agent.datasets.search import Search, available, find_packaged, find_search, is_name, locate
from clew_gui.deploy import probe_there
from clew_gui.deploy.bundle import own_files
from clew_shared.base.places import Places
from clew_shared.base.problem import ProblemError
from clew_shared.catalogue import known_sets
from clew_shared.data_sets import brought_as, packaged_file
from tests.idx import format_idx

Arrays = dict[str, npt.NDArray[Any]]


@pytest.fixture
def images() -> Arrays:
    """A small set in the form of MNIST: 12 training and 5 test images."""
    generator = np.random.default_rng(7)
    return {
        "x_train": generator.integers(0, 256, (12, 28, 28), dtype=np.uint8),
        "y_train": generator.integers(0, 10, 12, dtype=np.uint8),
        "x_test": generator.integers(0, 256, (5, 28, 28), dtype=np.uint8),
        "y_test": generator.integers(0, 10, 5, dtype=np.uint8),
    }


def write_npz(path: Path, arrays: Arrays) -> Path:
    np.savez_compressed(path, allow_pickle=True, **arrays)
    return path


def write_idx(folder: Path, arrays: Arrays, packed: bool) -> Path:
    folder.mkdir(exist_ok=True)
    for stem, name in zip(IDX_STEMS, ("x_train", "y_train", "x_test", "y_test"), strict=True):
        data = format_idx(arrays[name])
        (folder / f"{stem}{'.gz' if packed else ''}").write_bytes(gzip.compress(data) if packed else data)
    return folder


def lab_parts(arrays: Arrays) -> tuple[tuple[npt.NDArray[Any], npt.NDArray[Any]], ...]:
    """The arrays as the courses' pickle holds them: three pairs, pixels as float32 divided by 256."""
    x = (arrays["x_train"].reshape(-1, 784) / 256).astype(np.float32)
    x_test = (arrays["x_test"].reshape(-1, 784) / 256).astype(np.float32)
    y = arrays["y_train"].astype(np.int64)
    return (x[:10], y[:10]), (x[10:], y[10:]), (x_test, arrays["y_test"].astype(np.int64))


def refusal(name: str | Path, search: Search | None = None) -> str:
    with pytest.raises(ProblemError) as caught:
        load(str(name), search or Search())
    return str(caught.value)


def assert_same(one: DataSet, other: DataSet) -> None:
    for part in ("train", "validation", "test"):
        np.testing.assert_array_equal(getattr(one, part).x, getattr(other, part).x)
        np.testing.assert_array_equal(getattr(one, part).y, getattr(other, part).y)


T = TypeVar("T")


def ask(parse: Callable[[bytes], T], data: bytes) -> T | str:
    """What ``parse`` makes of ``data``, or the text of its refusal; any other exception fails the test."""
    try:
        return parse(data)
    except ValueError as error:
        return str(error)


# Reading what is sound.


def test_npz_gives_float32_rows_divided_by_256_and_the_courses_split(tmp_path: Path, images: Arrays) -> None:
    data = load(str(write_npz(tmp_path / "mnist.npz", images)), Search())
    assert (len(data.train), len(data.validation), len(data.test)) == (10, 2, 5)
    assert data.train.x.dtype == np.float32
    assert data.train.y.dtype == np.int32
    np.testing.assert_array_equal(data.train.x, images["x_train"][:10].reshape(10, 784) / 256)
    np.testing.assert_array_equal(data.validation.y, images["y_train"][10:])
    assert data.image_shape == (28, 28, 1)
    assert (data.name, data.classes, data.source) == ("mnist", 10, str(tmp_path / "mnist.npz"))


def test_all_forms_of_mnist_give_the_same_arrays(tmp_path: Path, images: Arrays) -> None:
    npz = load(str(write_npz(tmp_path / "any-name", images).with_suffix(".npz")), Search())
    packed = tmp_path / "mnist.pkl.gz"
    packed.write_bytes(gzip.compress(pickle.dumps(lab_parts(images), protocol=2)))
    assert_same(npz, load(str(packed), Search()))
    assert_same(npz, load(str(write_idx(tmp_path / "plain", images, packed=False)), Search()))
    assert_same(npz, load(str(write_idx(tmp_path / "packed", images, packed=True)), Search()))
    assert_same(npz, load(str(tmp_path / "packed" / f"{IDX_STEMS[3]}.gz"), Search()))


def test_the_digest_is_what_sha256sum_prints(tmp_path: Path, images: Arrays) -> None:
    import hashlib

    path = write_npz(tmp_path / "mnist.npz", images)
    assert load(str(path), Search()).sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_digits_look_like_mnist() -> None:
    data = load("digits", Search())
    assert (len(data.train), len(data.validation), len(data.test)) == (1200, 297, 300)
    assert data.train.x.shape == (1200, 784)
    assert data.train.x.dtype == np.float32
    assert data.train.x.min() == 0.0
    assert data.train.x.max() == np.float32(255 / 256)
    assert set(data.test.y.tolist()) == set(range(10))
    picture = data.train.x[0].reshape(28, 28)
    assert not picture[:2].any(), "the border is black"
    assert not picture[:, -2:].any(), "the border is black"


def test_the_digits_that_come_with_the_agent_are_the_same_bits_and_need_no_scikit_learn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = packaged_file(digits.CARD)
    assert theirs is not None
    assert find_packaged(digits.CARD, tmp_path / "none") == theirs, "nothing was brought"
    brought = tmp_path / brought_as(digits.CARD)
    brought.parent.mkdir(parents=True)
    brought.write_bytes(own_files()[brought_as(digits.CARD)])
    monkeypatch.setattr("clew_agent.datasets.search.packaged_file", lambda _: None)
    assert find_packaged(digits.CARD, tmp_path) == brought
    mine, usual = digits.read(brought), digits.read(theirs)
    assert_same(mine, usual)
    assert (mine.source, mine.sha256) == (usual.source, usual.sha256)
    with pytest.raises(ProblemError, match="this Python environment lacks"):
        find_packaged(digits.CARD, tmp_path / "none")


def test_enlarging_keeps_a_flat_picture_flat_and_the_order_of_grey_levels() -> None:
    flat = digits.enlarge(np.full((1, 8, 8), 16.0))
    assert (flat[0, 2:-2, 2:-2] == 255).all()
    ramp = digits.enlarge(np.tile(np.arange(8.0), (1, 8, 1)))[0, 10, 2:-2].astype(int)
    assert (np.diff(ramp) >= 0).all()
    assert ramp[1::3].tolist() == np.rint(np.arange(8) * 255 / 16).astype(int).tolist(), (
        "pixel centres keep their value"
    )


@pytest.mark.needs("real-mnist")
def test_the_real_mnist_has_its_known_size_and_first_labels() -> None:
    data = load("mnist", find_search(Places(home=Path("/nowhere"), private=Path("/nowhere"))))
    assert (len(data.train), len(data.validation), len(data.test)) == (50_000, 10_000, 10_000)
    assert data.train.y[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert data.test.y[:5].tolist() == [7, 2, 1, 0, 4]
    assert data.train.x.max() == np.float32(255 / 256)


# Searching.


def test_search_order_is_own_then_course_then_cache(tmp_path: Path, images: Arrays) -> None:
    places = Places(home=tmp_path / "home", private=tmp_path / "private")
    for folder in (places.data, tmp_path / "course", tmp_path / "own"):
        folder.mkdir(parents=True)
        write_npz(folder / "mnist.npz", images)
    environ = {"CLEW_DATA": str(tmp_path / "own"), "CLEW_COURSE_DATA": str(tmp_path / "course")}
    for expected in (tmp_path / "own", tmp_path / "course", places.data):
        assert Path(load("mnist", find_search(places, environ)).source).parent == expected
        (expected / "mnist.npz").unlink()
    assert "was not found" in refusal("mnist", find_search(places, environ))


@pytest.mark.unix("the home folder is what HOME names")
def test_a_path_of_a_site_may_begin_with_the_home_folder(
    tmp_path: Path, images: Arrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = write_npz(tmp_path / "mnist.npz", images)
    places = Places(home=tmp_path / "empty", private=tmp_path)
    assert load("mnist", find_search(places, {"CLEW_COURSE_DATA": "~/"})).source == str(path)
    assert load("~/mnist.npz", Search()).source == str(path)


LAYOUTS = {
    "nowhere": ((), None),
    "the course's copy": (("course/mnist.npz", "cache/mnist.npz"), None),
    "a subfolder": (("course/mnist/mnist.pkl.gz",), None),
    "IDX in another spelling": (("cache/train-images.idx3-ubyte",), None),
    "the cache": (("cache/mnist.pkl",), None),
    "a folder named by CLEW_DATA": (("own/mnist.npz", "course/mnist.npz"), "own"),
    "an empty folder named by CLEW_DATA": (("own/else", "course/mnist.npz"), "own"),
    "a file named by CLEW_DATA": (("own/mine.npz", "course/mnist.npz"), "own/mine.npz"),
    "a mistyped CLEW_DATA": (("course/mnist.npz",), "no/such"),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_doctor_finds_what_the_agent_would_find(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, named = LAYOUTS[name]
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    own = str(tmp_path / named) if named else ""
    monkeypatch.setenv("CLEW_DATA", own)
    question = {
        "folders": [str(tmp_path / "course"), str(tmp_path / "cache")],
        "sets": {"mnist": list(known_sets()["mnist"].files)},
        "digits": digits.CARD.packaged,
    }
    told = probe_there.data_sets(question)
    search = find_search(
        Places(home=tmp_path, private=tmp_path), {"CLEW_DATA": own, "CLEW_COURSE_DATA": str(tmp_path / "course")}
    )
    search = Search(own=search.own, folders=(*search.folders[:1], tmp_path / "cache"))
    try:
        found = str(locate("mnist", search))
    except ProblemError:
        found = ""
    assert told["sets"].get("mnist", "") == found
    assert told["digits"] == str(packaged_file(digits.CARD))


def test_a_folder_that_may_not_be_read_is_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(tmp_path))

    monkeypatch.setattr(Path, "is_file", refuse)
    assert f"{tmp_path} cannot be used: Permission denied" in refusal("mnist", Search(folders=(tmp_path,)))
    assert probe_there.first_file([tmp_path], ["mnist.npz"]) == ""


def test_clew_data_may_name_a_file(tmp_path: Path, images: Arrays) -> None:
    path = write_npz(tmp_path / "mine.npz", images)
    assert load("mnist", Search(own=path)).source == str(path)


def test_a_missing_set_names_the_three_ways_out(tmp_path: Path) -> None:
    text = refusal("mnist", Search(folders=(tmp_path,)))
    for part in (str(tmp_path), "Choose the file", "copy it into one of these folders", "digits"):
        assert part in text


def test_a_device_is_no_data_file() -> None:
    with pytest.raises(ProblemError, match="neither a file nor a folder"):
        load("/dev/zero", Search())


def test_what_is_here_is_named_without_reading_it(tmp_path: Path) -> None:
    assert available(Search(folders=(tmp_path,))) == ("digits",)
    (tmp_path / "mnist.npz").write_bytes(b"not read")
    assert available(Search(folders=(tmp_path,))) == ("mnist", "digits")


def test_a_junk_file_in_the_first_place_is_not_passed_over(tmp_path: Path, images: Arrays) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    (first / "mnist.npz").write_text("not an archive")
    write_npz(second / "mnist.npz", images)
    assert str(first / "mnist.npz") in refusal("mnist", Search(folders=(first, second)))


def test_a_mistyped_clew_data_is_a_refusal(tmp_path: Path) -> None:
    assert "CLEW_DATA" in refusal("mnist", Search(own=tmp_path / "nothing"))


@pytest.mark.parametrize(
    ("text", "name"),
    [("mnist", True), ("digits", True), ("mnsit", True), ("./mnist", False), ("a/b", False), ("mnist.npz", False)],
)
def test_names_and_paths_are_told_apart(text: str, name: bool) -> None:
    assert is_name(text) is name


def test_unknown_names_missing_paths_and_empty_folders_are_refused(tmp_path: Path) -> None:
    assert "Did you mean mnist?" in refusal("mnsit")
    assert "does not exist" in refusal(tmp_path / "no.npz")
    assert "holds no data set" in refusal(tmp_path)


def test_an_idx_file_without_its_siblings_names_them(tmp_path: Path, images: Arrays) -> None:
    folder = write_idx(tmp_path / "idx", images, packed=True)
    (folder / f"{IDX_STEMS[1]}.gz").unlink()
    assert IDX_STEMS[1] in refusal(folder)


# Junk.


def change(name: str, make: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> Callable[[Arrays], Arrays]:
    return lambda arrays: arrays | {name: make(arrays[name])}


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda a: {k: v for k, v in a.items() if k != "y_test"}, "lacks the arrays y_test"),
        (change("y_train", lambda y: y[:-1]), "11 labels for 12 images"),
        (change("y_train", lambda y: y + 90), "expected 0 to 9"),
        (change("y_train", lambda y: y.astype(np.int16) - 20), "expected 0 to 9"),
        (change("y_test", lambda y: y.astype(np.float64)), "whole numbers"),
        (change("x_train", lambda x: x[:, :27]), "(12, 27, 28)"),
        (change("x_test", lambda x: x.astype(np.float64)), "float64"),
        (change("x_test", lambda x: x.astype(object)), "object"),
        (change("y_test", lambda y: y > 4), "type bool, expected numbers"),
        (lambda a: {k: v[:3] for k, v in a.items()}, "too few"),
    ],
)
def test_wrong_arrays_are_described(
    tmp_path: Path, images: Arrays, spoil: Callable[[Arrays], Arrays], words: str
) -> None:
    path = tmp_path / "mnist.npz"
    np.savez(path, allow_pickle=True, **spoil(images))
    text = refusal(path)
    assert words in text
    assert str(path) in text


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"PK\x03\x04rubbish", b"\x1f\x8b\x08broken", b"\0\0\x08\x03\0\0", b"("]
)
def test_junk_files_are_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "junk"
    path.write_bytes(content)
    assert str(path) in refusal(path)


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.999])
def test_truncated_files_are_refused(tmp_path: Path, images: Arrays, part: float) -> None:
    npz = write_npz(tmp_path / "mnist.npz", images)
    npz.write_bytes(npz.read_bytes()[: int(npz.stat().st_size * part)])
    refusal(npz)
    packed = tmp_path / "mnist.pkl.gz"
    whole = gzip.compress(pickle.dumps(lab_parts(images), protocol=2))
    packed.write_bytes(whole[: int(len(whole) * part)])
    assert "in the middle" in refusal(packed)


def test_a_gzip_bomb_is_stopped_at_the_limit(tmp_path: Path) -> None:
    bomb = tmp_path / f"{IDX_STEMS[0]}.gz"
    bomb.write_bytes(gzip.compress(bytes(8 << 20)))
    with pytest.raises(ProblemError, match="unpacks to more than"):
        read_bytes(bomb, limit=1 << 20)


def test_a_gzip_file_of_many_parts_is_read_and_of_very_many_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    part, padded = gzip.compress(b"ab"), gzip.compress(b"c") + bytes(200_000)
    assert gunzip(part * 2000 + padded + part, path) == b"ab" * 2000 + b"cab"
    with pytest.raises(ProblemError, match="more than 20,000 gzip files in a row"):
        gunzip(gzip.compress(b"") * 20_001, path)


def test_a_zip_bomb_is_refused_by_its_declared_size() -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", bytes(4 << 20))
    with pytest.raises(ValueError, match="unpack to 4,194,304 bytes"):
        parse_npz(packed.getvalue(), ["x"], limit=1 << 20)


def test_a_huge_declared_shape_takes_no_memory() -> None:
    npy = io.BytesIO()
    np.lib.format.write_array_header_1_0(npy, {"shape": (2**40, 2**40), "fortran_order": False, "descr": "<f8"})
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("x.npy", npy.getvalue())
    with pytest.raises(ValueError, match="declares"):
        parse_npz(packed.getvalue(), ["x"], limit=1 << 20)


@pytest.mark.parametrize("shape", ["(True, 28, 28)", "(12, True)", "(True,)"])
def test_a_shape_of_truth_values_is_refused(shape: str) -> None:
    head = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    content = bytes(math.prod(ast.literal_eval(shape)))
    with pytest.raises(ValueError, match="expected whole numbers"):
        parse_npy(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + content, "x_train")


# IDX.

idx_arrays = hnp.arrays(
    dtype=st.sampled_from([np.uint8, np.int8, np.int16, np.int32, np.float32, np.float64]),
    shape=hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=6),
)


@given(idx_arrays)
def test_idx_round_trip(array: npt.NDArray[Any]) -> None:
    back = parse_idx(format_idx(array))
    assert back.shape == array.shape
    np.testing.assert_array_equal(back, array)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_array_or_a_described_refusal(data: bytes) -> None:
    array = ask(parse_idx, data)
    assert isinstance(array, str) or format_idx(array) == data


@given(idx_arrays, st.data())
def test_a_cut_or_longer_idx_file_is_refused(array: npt.NDArray[Any], data: st.DataObject) -> None:
    whole = format_idx(array)
    cut = data.draw(st.integers(0, len(whole) - 1))
    for wrong in (whole[:cut], whole + b"\0"):
        with pytest.raises(ValueError, match="it"):
            parse_idx(wrong)


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=4))
def test_huge_idx_sizes_take_no_memory(shape: list[int]) -> None:
    data = struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape) + b"\1\2\3"
    if np.prod([float(side) for side in shape]) != 3:
        with pytest.raises(ValueError, match="declares"):
            parse_idx(data)


# The courses' pickle.


@pytest.mark.parametrize("protocol", range(6))
def test_pickles_of_all_protocols_are_read(images: Arrays, protocol: int) -> None:
    parts = parse_pickle(pickle.dumps(lab_parts(images), protocol=protocol))
    for (x, y), (x_expected, y_expected) in zip(parts, lab_parts(images), strict=True):
        np.testing.assert_array_equal(x, x_expected)
        np.testing.assert_array_equal(y, y_expected)


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", ">i8", "u1", "<i4"])
def test_types_byte_orders_and_fortran_order_survive(protocol: int, dtype: str) -> None:
    array = np.asfortranarray(np.arange(12).reshape(3, 4).astype(dtype))
    back = parse_pickle(pickle.dumps(((array, array),) * 3, protocol=protocol))
    np.testing.assert_array_equal(back[2][1], array)


def python2_array(array: npt.NDArray[Any], protocol: int) -> bytes:
    """What Python 2 with NumPy 1 wrote for an array: byte strings, and names of modules that have moved since."""
    name, content = f"{array.dtype.kind}{array.dtype.itemsize}", array.tobytes()
    if protocol == 2:

        def text(data: bytes) -> bytes:
            return b"U" + bytes([len(data)]) + data if len(data) < 256 else b"T" + struct.pack("<I", len(data)) + data
    else:

        def text(data: bytes) -> bytes:
            return b"S" + repr(data)[1:].encode() + b"\n"

    shape = b"(" + b"".join(b"I%d\n" % side for side in array.shape) + b"t"
    return (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\0t"
        + text(b"b")
        + b"tR(K\1"
        + shape
        + b"cnumpy\ndtype\n("
        + text(name.encode())
        + b"K\0K\1tR(K\3"
        + text(b"<")
        + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tbI00\n"
        + text(content)
        + b"tb"
    )


@pytest.mark.parametrize("protocol", [0, 2])
def test_pickles_of_python_2_are_read(tmp_path: Path, images: Arrays, protocol: int) -> None:
    pairs = [b"(" + b"".join(python2_array(array, protocol) for array in part) + b"t" for part in lab_parts(images)]
    packed = tmp_path / "mnist.pkl.gz"
    packed.write_bytes(gzip.compress(b"(" + b"".join(pairs) + b"t."))
    assert_same(load(str(packed), Search()), load(str(write_npz(tmp_path / "mnist.npz", images)), Search()))


class Runs:
    """An object whose pickle calls ``function`` when a normal reader loads it."""

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self.call


def codecs_bomb() -> bytes:
    """Encodes one long text again and again, keeping every result."""
    text = b"\x8c\xff" + b"a" * 255 + b"q\0"
    return b"\x80\x04" + text + b"0" + b"(" + b"c_codecs\nencode\nh\0\x8c\x06latin1\x86R" * 300 + b"t."


DTYPE = b"cnumpy\ndtype\n(\x8c\x02f4K\0K\1tR"
MAKE = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\0tC\1btR"


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("function", [os.system, eval, exec, os.remove, open, __import__])
def test_a_pickle_that_would_run_code_runs_nothing(
    tmp_path: Path, protocol: int, function: Callable[..., object]
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    witness = folder / "witness"
    witness.write_text("still here")
    packed = folder / "mnist.pkl.gz"
    argument = f"touch {folder / 'ran'}" if function is os.system else str(witness)
    packed.write_bytes(gzip.compress(pickle.dumps(((Runs(function, argument),) * 2,) * 3, protocol=protocol)))
    text = refusal(packed)
    assert "which could run code; it was not run" in text
    assert str(packed) in text
    assert sorted(path.name for path in folder.iterdir()) == ["mnist.pkl.gz", "witness"]


@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param(b"cos\nsystem\n(S'true'\ntR.", id="os.system, protocol 0"),
        pytest.param(b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R.", id="STACK_GLOBAL"),
        pytest.param(b"\x80\x04\x8c\x05numpy\x8c\x0cndarray.base\x93.", id="dotted name below an allowed one"),
        pytest.param(b"\x80\x04K\1K\2\x93.", id="STACK_GLOBAL of numbers"),
        pytest.param(
            b"cnumpy.core.multiarray\n_reconstruct\n(cos\nsystem\n(K\0tC\1btR.", id="_reconstruct of another class"
        ),
        pytest.param(b"cnumpy\nload\n(S'x'\ntR.", id="another name of numpy"),
        pytest.param(b"cnumpy\ndtype\n(\x8c\x01OK\0K\1tR.", id="dtype of objects"),
        pytest.param(b"cnumpy\nndarray\n((J\xff\xff\xff\x7ftttR.", id="a huge array by its class"),
        pytest.param(b"c_codecs\nencode\n(S'x'\nX\x04\0\0\0zliltR.", id="encode with another codec"),
        pytest.param(b"cos\nsystem\n\x81.", id="NEWOBJ"),
        pytest.param(b"ios\nsystem\n.", id="INST"),
        pytest.param(b"(oos\n.", id="OBJ"),
        pytest.param(b"Pid\n.", id="PERSID"),
        pytest.param(b"\x82\x01.", id="EXT1"),
        pytest.param(MAKE + b"}(S'a'\nS'b'\nub.", id="state that is a dictionary"),
        pytest.param(MAKE + b"(K\1(J\xff\xff\xff\x7ft" + DTYPE + b"\x89C\1atb.", id="declared shape without bytes"),
        pytest.param(MAKE + b"(K\1(J\xff\xff\xff\xfft" + DTYPE + b"\x89C\1atb.", id="negative shape"),
        pytest.param(MAKE + b"(K\1(\x88t" + DTYPE + b"\x89C\1atb.", id="a truth value as shape"),
        pytest.param(MAKE + b".", id="array without content"),
        pytest.param(DTYPE + b"(K\3S'<'\nS'sub'\nNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb.", id="structured dtype"),
        pytest.param(b"\x8e" + b"\xff" * 8 + b"a.", id="BINBYTES8 of 2**64 bytes"),
        pytest.param(b"\x96" + b"\xff" * 7 + b"\x7fa.", id="BYTEARRAY8 of 2**63 bytes"),
        pytest.param(b"B\xff\xff\xff\xff.", id="BINBYTES of 4 GB"),
        pytest.param(b"\x8b\xff\xff\xff\x7f.", id="LONG4 of 2 GB"),
        pytest.param(b"L" + b"9" * 5000 + b"L\n.", id="a number of 5000 digits"),
        pytest.param(b"Nr\xff\xff\xff\xff.", id="PUT of a huge index"),
        pytest.param(b"\x95" + b"\xff" * 8 + b"N.", id="huge FRAME"),
        pytest.param(b"N" * 200_000 + b".", id="many instructions"),
        pytest.param(b"(" * 50_000 + b"t" * 50_000 + b".", id="deep nesting"),
        pytest.param(b"(" + b"N" * 20_000 + b"t.", id="a long tuple"),
        pytest.param(b"]q\0h\0a.", id="a list that holds itself"),
        pytest.param(codecs_bomb(), id="the same text encoded 300 times"),
        pytest.param(b"R.", id="empty stack"),
        pytest.param(b"t.", id="no mark"),
        pytest.param(b"h\7.", id="unknown memo"),
        pytest.param(b"Sno quotes\n.", id="string without quotes"),
        pytest.param(b"S'\\x4'\n.", id="broken escape"),
        pytest.param(b"X\2\0\0\0\xff\xff.", id="broken UTF-8"),
    ],
)
def test_hostile_pickles_are_refused(tmp_path: Path, hostile: bytes) -> None:
    path = tmp_path / "mnist.pkl"
    path.write_bytes(b"\x80\x02" + hostile)
    assert str(path) in refusal(path)


DOUBLED = b")q\1" + b"0h\1h\1\x86q\1" * 60
BUFFER = b"cnumpy.core.numeric\n_frombuffer\n(\x96\4\0\0\0\0\0\0\0aaaaq\0"


@pytest.mark.parametrize(
    ("hostile", "words"),
    [
        pytest.param(b"}" + DOUBLED + b"h\1Ns.", "the instruction b'}'", id="a key that takes 2**60 steps to hash"),
        pytest.param(b"cnumpy\ndtype\n(" + DOUBLED + b"tR.", "damaged", id="a dtype that takes 2**60 steps to show"),
        pytest.param(DTYPE + b"N}S'name'\nS'O'\ns\x86b.", "the instruction b'}'", id="attributes of a dtype"),
        pytest.param(BUFFER + DTYPE + b"K\1\x85\x8c\1CtRh\0K\1a.", "the instruction b'a'", id="bytes that grow"),
        pytest.param(b"G" + bytes(8) + b".", "the instruction b'G'", id="a fraction outside of an array"),
        pytest.param(b"N" * 3000 + b".", "more than 2,000 instructions", id="many instructions"),
        pytest.param(codecs_bomb(), "more text than it holds", id="the same text encoded 300 times"),
    ],
)
def test_what_pythons_unpickler_would_believe_is_refused(hostile: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_pickle(hostile)


def test_an_escape_that_no_python_writes_is_damage() -> None:
    with pytest.raises(ValueError, match="its pickle is damaged"):
        parse_pickle(b"S'a\\u'\n.")


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ((1, 2, 3), "not hold pairs of arrays"),
        (((np.zeros((2, 784), np.float32), np.zeros(2, np.int64)),), "three parts"),
        (((np.zeros((2, 5), np.float32), np.zeros(2, np.int64)),) * 3, "(2, 5)"),
        (((np.full((2, 784), np.nan, np.float32), np.zeros(2, np.int64)),) * 3, "pixels go from nan"),
        (((np.full((2, 784), 255, np.float32), np.zeros(2, np.int64)),) * 3, "expected 0 to 1"),
        (((np.zeros((2, 784), np.float32), np.full(2, 10)),) * 3, "expected 0 to 9"),
        (((np.zeros((2, 784), np.float32), np.zeros(3, np.int64)),) * 3, "3 labels for 2 images"),
    ],
)
def test_a_pickle_of_something_else_is_described(tmp_path: Path, parts: object, words: str) -> None:
    path = tmp_path / "mnist.pkl.gz"
    path.write_bytes(gzip.compress(pickle.dumps(parts)))
    assert words in refusal(path)


def test_kept_data_is_given_out_until_its_file_changes(tmp_path: Path, images: Arrays) -> None:
    path = write_npz(tmp_path / "mnist.npz", images)
    search = Search(own=tmp_path)
    kept = DataCache()
    assert kept.keep("mnist", search)
    first = kept.load("mnist", search)
    assert kept.load(str(path), search) is first, "the same file by its path"
    assert kept.load("digits", search).name == "digits"
    path.write_bytes(path.read_bytes())
    os.utime(path, ns=(1, 1))
    again = kept.load("mnist", search)
    assert again is not first
    assert again.sha256 == first.sha256


def test_data_that_is_missing_or_damaged_is_not_kept_and_refused_as_always(tmp_path: Path) -> None:
    kept = DataCache()
    assert not kept.keep("mnist", Search(folders=(tmp_path,)))
    (tmp_path / "mnist.npz").write_bytes(b"PK junk")
    assert not kept.keep("mnist", Search(folders=(tmp_path,)))
    with pytest.raises(ProblemError, match="not a usable data set"):
        kept.load("mnist", Search(folders=(tmp_path,)))
