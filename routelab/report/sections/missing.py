"""What was not computed, and which command makes it?"""

from __future__ import annotations

from routelab.report.content import Material, Section, Table

QUESTIONS = {
    "load": "do the experts share the work",
    "consistency": "do images of one class take the same experts",
    "information": "how much of routing is about class, image and token",
    "probe": "can the class be read from routing",
    "specialization": "which expert is for which class",
    "concentration": "how few tokens make up a slot (soft routing)",
    "coactivation": "which experts serve the same tokens",
    "paths": "which experts follow which",
    "clusters": "do features group by class and by routing",
}


def section(material: Material) -> Section | None:
    """Analyses without a Result, each with its command."""
    absent = {name: text for name, text in QUESTIONS.items() if name not in material.results}
    if not absent:
        return None
    rows = [
        [name, text, f"routelab analyze {material.store.path} --only {name}"]
        for name, text in absent.items()
    ]
    return Section(
        "Not computed",
        [Table(["analysis", "question", "command"], rows)],
        "What this report could also say.",
    )
