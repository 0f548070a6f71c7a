"""What a study found: effects, words, files, predictions for new people."""
