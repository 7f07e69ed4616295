"""What `import tf_probunet as pu` offers: arrays in, arrays out.

Each public name lives in one module here; `tf_probunet/__init__.py` imports it on first
use. docs/api.md is made from the docstrings.
"""
