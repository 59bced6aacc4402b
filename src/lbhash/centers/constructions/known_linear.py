"""Generators of binary linear codes that no simple construction gives, found by search.

They reach the lower bounds on linear codes in Brouwer's tables as of May 2006, read in GUAVA, a package of GAP. The
columns of each are whole orbits of a matrix of small order, which makes most of the codes quasi-cyclic; the orbits
were chosen by tabu search, or greedily for a parity-check matrix, as ``benchmarks.code_search.linear_codes`` says.

    python -m benchmarks.code_search.linear_codes --length N --dimension K --distance D OPTIONS

with the options of an entry finds its rows again. ``tests/test_known_linear.py`` counts every distance over all words.

Source of the method: Gulliver and Bhargava, IEEE Trans. Inform. Theory 37 (1991) 552-555; Braun, Kohnert and
Wassermann, IEEE Trans. Inform. Theory 51 (2005) 4247-4251.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lbhash.centers.constructions.linear import Generator


class Known(NamedTuple):
    """A linear [n, k, d] code.

    Attributes:
        n: length.
        k: dimension.
        d: minimum distance.
        options: of the search that found it.
        rows: of a generator, as hexadecimal integers; bit j of a row is column j.
    """

    n: int
    k: int
    d: int
    options: str
    rows: str


CODES = (
    Known(
        24,
        7,
        10,
        "--order 7 --seed 0",
        "4563d 77142b 974e40 dd75a8 6566d8 f8bd3d ed9605",
    ),
    Known(
        24,
        14,
        6,
        "--order 8 --checks --seed 0",
        "ff f50 110f 221e 443c 8728 10471 2074d 40135 8026a 10042b 200706 40015c 800247",
    ),
    Known(
        32,
        7,
        14,
        "--order 31 --seed 0",
        "25a6949c 108bf607 ce8ab5e5 f1f64e08 8bb21453 ca7668be f24ce481",
    ),
    Known(
        33,
        8,
        14,
        "--order 3 --seed 0",
        "15b7400c3 1adb80145 1ff007fff 3562816b 1ea301b5 28a2da2d 30c36c36 1fffff007",
    ),
    Known(
        48,
        7,
        22,
        "--order 8 --seed 0",
        "411ce017ddd8 8229d02ebbb1 1443b04d7772 2886708beee4 90f999595095 a00aaafaf0af c0fcccaca0ca",
    ),
    Known(
        48,
        8,
        22,
        "--order 15 --seed 0",
        "adb6f6db0000 d6db5b6d8000 1eb23ac8fac8 3d64f590f59 7ac9eb21eb2 f593d643d64 b6db40005b6d db6d80006db6",
    ),
    Known(
        48,
        10,
        20,
        "--order 12 --seed 0",
        "101891ef1ba1 202123de3743 404246bc7e86 80848c78fd0d 1101891ef1ba 2203123de374 4406247bc6e8 880c48f78dd0 "
        "555555ffffff aaaaaaffffff",
    ),
    Known(
        48,
        15,
        16,
        "--order 15 --frobenius --seed 0",
        "7146fb217b9 160c85cd766f 6c53957cdc3 e26363cf936 de476dcf250 13d4893fe951 19b90d98df86 1eca0fed64a8 "
        "ffffffffffff 392d6dd0 49eff81 fe53686 b509ff8 b6bb5e97f55d dd75b57b6eba",
    ),
    Known(
        65,
        8,
        30,
        "--order 21 --frobenius --seed 0",
        "10e3f03ffc0fc0fff 14076eb80cf3b9d 180e975c0b6d5fa 16dbae02ebae02e 1b65d70175d7017 5a0575d75d75d75d "
        "6c06ebaebaebaeba f03fffffc003ffc0",
    ),
    Known(
        96,
        8,
        46,
        "--order 16 --seed 0",
        "d5c9ede9f5f1b9f9d961b5fd ab93dbd3ebe373f3b3c26bfb 5727b7a7d7c7e6e76785d6f7 ae4e6f4faf8fcdcfce0badef "
        "5d9cde9e5f1f9b9f9d165bdf ba39bd3dbe3e373f3b2cb6bf 75727b7a7d7c6e7e76586d7f eae4f6f4faf8dcfcecb0dafe",
    ),
    Known(
        96,
        10,
        44,
        "--order 12 --seed 0",
        "f78af5ba1880f695c9fe1cd1 ef15eb743101ed3b92fc39a3 de3bd6e86202da7725f87347 bc77add0d404b4fe4af0f68e "
        "8f75af1ba0889f695c1fe1cd 1efb5e3741103ed2b93fc39a 3de6bd6e82207da5727f8734 7bcd7add0440fb4ae4ff0e68 "
        "555555fff555fff555fff000 aaaaaafffaaafffaaafff000",
    ),
    Known(
        96,
        12,
        40,
        "--order 15 --seed 0",
        "1789cd78f1355e26bc489af 2f131af1e26abc4d789935e 1e26b5e2c4d7789af1326bc 2bc4a6bc789baf135e244d7 "
        "27bdec6314a5294a5294a529 6cc634a52def7bdef7bdef7b 7a318d294f7bdef7bdef7bde 53def6318a5294a5294a5294 "
        "83ffffffffffe00000007fff 2db6db6db6db6db6db6db6d 36db6db6db6db6db6db6db6 83fff800000000003fffffff",
    ),
    Known(
        257,
        16,
        114,
        "--order 257 --seed 0",
        "6892459016edcf218c6f26aeff4317b981c07033bd185feeac9ec6309e76ed01 "
        "d1248b202ddb9e4318de4d5dfe862f730380e0677a30bfdd593d8c613cedda02 "
        "1cadb53d04d5af3a7bdd3bc15024f495f86c1b0fd497920541ee5def2e7ad5905 "
        "1fd24e2308c58286ef7c85e84fbdd85068c4311c92fea1f4691557bd5512c5f0a "
        "1fa49c46118b050ddef90bd09f7bb0a0d188623925fd43e8d22aaf7aaa258be15 "
        "19c01cd52278d6e9a534e5cbd103503a3b0cc371702b022f4e9cb2965dac7912a "
        "15091df3459f712152af39fd4df2910fee0581e1db8781a077f0894fb2bf9cf54 "
        "c9b1fbf8a503eb0bd98819074111364441704c08cde86be0528fefc6c98573a8 "
        "1fbf1b2615cea19363f7f14a07d617b310320e82226c8882e098119bd0d7c0a51 "
        "19f712152af39fd4df2910fee0581e1db8781a077f0894fb2bf9cf54a848ef9a2 "
        "156700735489e35ba694d3972f440d40e8ec330dc5c0ac08bd3a72ca5976b1e44 "
        "c4724bfa87d1a4555ef5544b17c2bfa49c46118b050ddef90bd09f7bb0a0d188 "
        "188e497f50fa348aabdeaa8962f857f49388c23160a1bbdf217a13ef76141a310 "
        "1795b6a7a09ab5e74f7ba7782a049e92bf0d8361fa92f240a83dcbbde5cf5ab20 "
        "9a24916405bb73c8631bc9abbfd0c5ee60701c0cef4617fbab27b18c279dbb40 "
        "1344922c80b76e790c63793577fa18bdcc0e03819de8c2ff7564f63184f3b7680",
    ),
)
"""By length and dimension; of each pair at most one."""


def known() -> tuple[tuple[int, int, int], ...]:
    """The (n, k, d) of all codes."""
    return tuple((code.n, code.k, code.d) for code in CODES)


def generator(n: int, k: int) -> Generator:
    """Generator matrix ``uint8 [k, n]`` of the [n, k] code.

    Raises:
        KeyError: there is none.
    """
    for code in CODES:
        if (code.n, code.k) == (n, k):
            rows = [int(row, 16) for row in code.rows.split()]
            return np.array([[row >> j & 1 for j in range(n)] for row in rows], np.uint8)
    raise KeyError((n, k))
