"""LIDC-IDRI, from any of the forms that people have it in."""
