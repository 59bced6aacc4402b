"""Files, locks, labels, progress, parallel runs and plotting: helpers that know nothing of hashing."""
