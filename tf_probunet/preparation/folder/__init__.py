"""Any folder of images with several masks each, or a CSV list of such files."""
