"""The specification, in the same folders and names as what it specifies."""
