"""How does the report look on a screen and on paper?"""

from __future__ import annotations

CSS = """
:root { color-scheme: light; --ink: #1f2430; --quiet: #5b6270; --line: #d9dce3; --wash: #f5f6f8;
  --good: #00694f; --alarm: #b3261e; --link: #00558c; }
* { box-sizing: border-box; }
html { scroll-behavior: smooth; }
body { margin: 0; color: var(--ink); background: #fff;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, "DejaVu Sans",
  sans-serif; }
.page { display: grid; grid-template-columns: 200px minmax(0, 960px); gap: 40px;
  max-width: 1240px; margin: 0 auto; padding: 24px; }
nav { position: sticky; top: 24px; align-self: start; font-size: 14px; }
nav ol { list-style: none; margin: 0; padding: 0; }
nav a { display: block; padding: 3px 0; color: var(--quiet); text-decoration: none; }
a { color: var(--link); }
nav a:hover, nav a:focus { color: var(--link); text-decoration: underline; }
h1 { font-size: 26px; line-height: 1.25; margin: 0 0 4px; }
h2 { font-size: 21px; margin: 0 0 2px; padding-top: 20px; border-top: 1px solid var(--line); }
h3 { font-size: 15px; margin: 20px 0 6px; }
section { margin-bottom: 28px; }
.question, .subtitle { color: var(--quiet); margin: 0 0 12px; }
.figure { width: 100%; margin: 14px 0; }
.tiles { display: flex; flex-wrap: wrap; gap: 10px; margin: 16px 0 24px; }
.tile { border: 1px solid var(--line); border-radius: 6px; padding: 8px 14px;
  background: var(--wash); }
.tile b { display: block; font-size: 18px; }
.tile span { color: var(--quiet); font-size: 13px; }
.good { color: var(--good); } .bad { color: var(--alarm); }
dl { display: grid; grid-template-columns: 170px 1fr; gap: 3px 16px; margin: 8px 0 16px; }
dt { color: var(--quiet); } dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; margin: 8px 0 18px; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: 4px; }
th, td { text-align: left; padding: 4px 14px 4px 0; border-bottom: 1px solid var(--line);
  vertical-align: top; white-space: pre-line; }
td { white-space: pre; line-height: 1.35; }
th { color: var(--quiet); font-weight: 600; }
tr.marked td { color: var(--alarm); }
ul.notices { list-style: none; margin: 8px 0 16px; padding: 0; }
ul.notices li { border-left: 4px solid var(--alarm); background: #fdf3f2; padding: 6px 12px;
  margin: 6px 0; }
details { font-size: 14px; color: var(--quiet); }
code { font: 13px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
footer { color: var(--quiet); font-size: 13px; border-top: 1px solid var(--line);
  padding-top: 10px; }
@media (max-width: 900px) { .page { display: block; padding: 16px; } nav { position: static; } }
@media print {
  .page { display: block; padding: 0; max-width: none; } nav, .modebar-container { display: none; }
  .figure, table, tr, li { break-inside: avoid; } h2, h3 { break-after: avoid; }
  body { font-size: 12px; }
}
"""
