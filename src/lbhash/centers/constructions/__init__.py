"""Constructions of binary codes whose words are far apart.

- ``..._centers(classes, bits, seed)`` returns distinct words, ``int8 [classes, bits]`` of -1 and +1. Only constructions
  that use random words look at the seed.
- ``..._blocks(classes, length)`` yields a ``blocks.Block`` for each code that has at least ``classes`` words of
  at most ``length`` bits.
"""
