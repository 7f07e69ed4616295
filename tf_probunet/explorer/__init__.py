"""A page in which the latent space of one image can be walked, without a server."""
