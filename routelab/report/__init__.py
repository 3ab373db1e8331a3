"""What would you send to a colleague? One HTML file with everything a store says about routing."""

from routelab.report.document import write_report

__all__ = ["write_report"]
