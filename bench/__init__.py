"""Speed and memory, each figure beside a peer or a physical limit measured in the same run."""
