"""The machines: nodes, their leases, their drains."""
