"""LIDC-IDRI, from the original download or one of three derived forms."""
