"""How the stored generators of linear and cyclic codes were found."""
