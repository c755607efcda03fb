"""References and labels of images. Pure."""
