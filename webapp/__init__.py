"""The truth and its faces: Postgres rows, the rules on them, pages and API; never loads torch or the workers."""
