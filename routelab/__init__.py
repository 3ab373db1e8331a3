"""RouteLab: see what the routers of Mixture-of-Experts vision transformers do, with evidence."""

__version__ = "0.1.0"
