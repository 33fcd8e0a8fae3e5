"""How parameters move: Muon and AdamW, their schedule, and the router's balancing bias."""
