"""sattrib: why did this Slurm job attempt end, which nodes are to blame, what should be done?"""

__version__ = "0.1.0"
