"""Models of every kind, made to give features and logits from one forward pass."""
