"""One module per family of architectures; each maps ``model_type`` names to a reader."""
