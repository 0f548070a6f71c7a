"""What the two parties say to each other and in which order: nothing here knows who answers."""
