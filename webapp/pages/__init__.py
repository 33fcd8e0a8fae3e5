"""What a person sees: pages, forms, and the live stream."""
