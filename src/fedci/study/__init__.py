"""What all parties agree on: the study file, its options and presets, its policy, and how a person is spelt."""
