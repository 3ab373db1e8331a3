"""What would you send to a colleague? One HTML file with everything a store or a study says."""

from routelab.report.comparison import Row, comparison_rows
from routelab.report.comparison_page import comparison_page, comparison_tables
from routelab.report.document import write_report

__all__ = ["Row", "comparison_page", "comparison_rows", "comparison_tables", "write_report"]
