"""Save, verify and restore a run's state; read and write Hugging Face weights."""
