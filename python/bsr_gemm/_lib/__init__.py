"""What the package is made of. Nothing here is for import: its names and files change."""
