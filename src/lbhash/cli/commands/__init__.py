"""The commands, one file each; ``lbhash.cli.app`` puts them together."""
