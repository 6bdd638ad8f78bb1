"""What all programs share: options, input, output, errors, signals and the words that people read."""
