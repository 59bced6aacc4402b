"""Groups of commands, a file each; ``lbhash.cli.app`` puts them together."""
