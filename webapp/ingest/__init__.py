"""From the files of a run to its rows: while it trains, and afterwards."""
