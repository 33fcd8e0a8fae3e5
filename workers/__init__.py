"""The hands: scheduler, node and shipper, which meet only in Postgres."""
