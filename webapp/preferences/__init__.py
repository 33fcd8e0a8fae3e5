"""What each user keeps of how pages look."""
