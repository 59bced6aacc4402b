import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbhash.codes import (
    as_packed,
    as_words,
    check_bits,
    check_codes,
    code_bytes,
    code_from_hex,
    hamming_distances,
    pack,
    pack_outputs,
    unpack,
)

signs = st.tuples(st.integers(0, 6), st.integers(1, 200), st.integers(0, 2**32 - 1)).map(
    lambda t: np.random.default_rng(t[2]).choice(np.array([-1, 1], np.int8), t[:2])
)


@settings(max_examples=50, deadline=None)
@given(signs)
def test_unpack_undoes_pack(b):
    codes = pack(b)
    assert codes.dtype == np.uint8
    assert codes.shape == (len(b), code_bytes(b.shape[1]))
    assert (unpack(codes, b.shape[1]) == b).all()


@settings(max_examples=30, deadline=None)
@given(signs, signs)
def test_distances_count_differing_signs(a, b):
    bits = min(a.shape[1], b.shape[1])
    a, b = a[:, :bits], b[:, :bits]
    expected = [[sum(x != y for x, y in zip(p, q, strict=True)) for q in b] for p in a]
    assert hamming_distances(pack(a), pack(b)).tolist() == expected


def test_bit_order_and_padding():
    assert pack([[-1] * 8 + [1, -1, 1]]).tolist() == [[0, 0b10100000]]
    assert pack([[1] * 3]).tolist() == [[0b11100000]]


def test_zero_is_positive():
    assert pack([[0.0, -0.0, -1e-30, 1e-30]]).tolist() == [[0b11010000]]


@settings(max_examples=30, deadline=None)
@given(signs)
def test_the_order_is_that_of_packbits(b):
    assert (pack(b) == np.packbits(b > 0, axis=1)).all()


@pytest.mark.parametrize("width", [1, 3, 8, 9, 16])
def test_words_keep_distances(width):
    codes = np.random.default_rng(0).integers(0, 256, (5, width), dtype=np.uint8)
    words = as_words(codes)
    assert words.shape == (5, -(-width // 8))
    assert (hamming_distances(words.view(np.uint8), words.view(np.uint8)) == hamming_distances(codes, codes)).all()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: check_bits(1025), ValueError, "bits is 1025; it must be from 1 to 1024"),
        (lambda: check_codes([[1, 2]]), TypeError, "packed codes are uint8"),
        (lambda: check_codes(np.zeros((3, 129), np.uint8)), ValueError, "codes has shape"),
        (lambda: pack([1, -1]), ValueError, "values has shape"),
        (lambda: pack([[1.0, 1.0], [np.nan, 1.0]]), ValueError, "first in row 1"),
        (lambda: unpack(np.zeros((1, 2), np.uint8), 8), ValueError, "codes has 2 bytes a row"),
        (
            lambda: hamming_distances(np.zeros((1, 2), np.uint8), np.zeros((1, 1), np.uint8)),
            ValueError,
            "b has 1 bytes",
        ),
    ],
)
def test_errors_name_the_argument(call, error, message):
    with pytest.raises(error, match=message):
        call()


@settings(max_examples=60, deadline=None)
@given(signs, st.sampled_from([np.int8, np.int64, np.float16, np.float32, np.float64, bool, np.uint8]))
def test_codes_of_any_form_are_packed(b, dtype):
    form = (b > 0).astype(dtype) if dtype in (bool, np.uint8) else b.astype(dtype)
    codes, bits = as_packed(form)
    if len(b):
        assert (codes == pack(b)).all()
    assert bits == b.shape[1]
    assert (as_packed((b > 0).astype(np.int64), bits)[0] == pack(b)).all()
    packed = pack(b)
    if packed.shape[1] != bits:
        again, length = as_packed(packed, bits)
        assert (again == packed).all()
        assert length == bits
    if packed.max(initial=0) > 1:
        assert as_packed(packed)[1] == 8 * packed.shape[1]


def test_a_zero_among_signs_is_positive():
    assert as_packed([[0, -1, 1, 0]])[0].tolist() == [[0b10110000]]
    assert as_packed([[0, 1, 1, 0]])[0].tolist() == [[0b01100000]]


@pytest.mark.parametrize(
    ("array", "bits", "message"),
    [
        ([[0.5, 1]], None, "codes is 0.5 in row 0; it must be packed uint8, or hold only -1 and \\+1, or only 0 and 1"),
        ([[1, -1], [2, 1]], None, "codes is 2 in row 1"),
        ([1, -1], None, r"codes is int64 \[2\]; it must be \[n, bits\] of ±1 or 0/1, or packed"),
        ([[1, -1, 1]], 4, "codes has 3 columns; with 4 bits it must have 4"),
        (np.array([[3, 7]], np.uint8), 20, "codes has 2 bytes a row; codes of 20 bits have 3"),
        (np.zeros((1, 1025), int), None, "the number of columns of codes is 1025"),
    ],
)
def test_no_form_of_codes(array, bits, message):
    with pytest.raises((TypeError, ValueError), match=message):
        as_packed(array, bits)


@settings(max_examples=30, deadline=None)
@given(signs)
def test_hexadecimal_digits_and_back(b):
    for code in pack(b):
        assert code_from_hex(code.tobytes().hex(), b.shape[1]).tolist() == code.tolist()
        assert code_from_hex(code.tobytes().hex().upper(), b.shape[1]).tolist() == code.tolist()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "code is ''; it must be 4 hexadecimal digits, for 12 bits"),
        ("ff  ", "code is 'ff  '; it must be 4 hexadecimal digits, for 12 bits"),
        ("f" * 9999, f"code is '{'f' * 64}…'; it must be 4 hexadecimal digits"),
        ("ffff", "code"),  # the last four bits are padding
    ],
)
def test_other_digits(text, said):
    with pytest.raises(ValueError, match=r"^code ") as error:
        code_from_hex(text, 12)
    assert str(error.value).startswith(said)


@pytest.mark.parametrize("kind", [np.int64, np.uint8, bool])
def test_zeros_and_ones_are_bits(kind):
    assert pack(np.eye(3, dtype=kind)).tolist() == [[128], [64], [32]]
    with pytest.raises(ValueError, match=r"^values holds fractions that are all 0 or 1; it must hold integers"):
        pack(np.eye(3))
    assert pack_outputs(np.eye(3)).tolist() == [[0b11100000]] * 3  # real outputs of 0 are positive
