"""From a trained model to files that others can use: SavedModel, TFLite, card."""
