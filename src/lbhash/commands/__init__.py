"""Groups of commands, a file each; ``lbhash.cli`` puts them together."""
