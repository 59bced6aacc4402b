"""Constructions of binary codes whose words are far apart, one file per code family.

- ``..._centers(classes, bits, seed)`` returns distinct words, ``int8 [classes, bits]`` of -1 and +1. Only constructions
  that use random words look at the seed.
- ``..._blocks(classes, length)`` yields a ``juxtaposition.Block`` for each code that has at least ``classes`` words of
  at most ``length`` bits.
- ``..._generator(...)`` returns the generator matrix of a linear code, ``uint8 [k, n]`` of 0 and 1.
"""
