"""How trainers are started, found again and ended: as processes of this machine, or as jobs of Slurm."""
