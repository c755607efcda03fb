"""Names and labels of images. Pure."""
