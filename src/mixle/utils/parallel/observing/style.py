"""The style sheet of the report, light and dark, from a phone to a desktop."""

from __future__ import annotations

__all__ = ["COLOURS", "STYLE"]

#: Colour of each phase.
COLOURS = {
    "queue": "#8a8f98",
    "decode": "#b48ead",
    "E-step": "#2f9e6e",
    "encode": "#6d7fd1",
    "wire": "#3a9bc4",
    "wait": "#c9ccd2",
    "fold": "#d9a520",
    "M-step": "#d2691e",
}

STYLE = """
.mixle-report{--ink:#1c2026;--dim:#5d6570;--back:#fff;--card:#f5f6f8;--edge:#dfe2e7;--calm:#2f9e6e;--slow:#c8501a;
--fast:#2e7cd6;color:var(--ink);background:var(--back);font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif;
max-width:1080px;margin:0 auto;padding:16px;box-sizing:border-box;text-align:left}
@media(prefers-color-scheme:dark){.mixle-report{--ink:#e6e9ee;--dim:#9aa3af;--back:#14171c;--card:#1e232b;
--edge:#343b46;--calm:#4cc38a;--slow:#ff8a4c;--fast:#6aa9f5}}
.mixle-report *{box-sizing:border-box}
.mixle-report h1{font-size:22px;margin:0 0 8px;color:var(--ink)}
.mixle-report h2{font-size:16px;margin:28px 0 8px;color:var(--ink)}
.mixle-report p{margin:4px 0 8px;color:var(--dim);max-width:75ch}
.mixle-report .verdict{border-left:5px solid var(--calm);background:var(--card);padding:10px 14px;border-radius:4px}
.mixle-report .verdict.slow{border-color:var(--slow)}
.mixle-report .verdict b{display:block;color:var(--ink);font-size:16px}
.mixle-report .tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(105px,1fr));gap:8px;margin:14px 0}
.mixle-report .tiles div{background:var(--card);padding:8px 10px;border-radius:4px;color:var(--dim);font-size:13px}
.mixle-report .tiles b{display:block;font-size:18px;color:var(--ink);white-space:nowrap}
.mixle-report .stack{display:flex;height:30px;border-radius:4px;overflow:hidden;background:var(--card)}
.mixle-report .keys{list-style:none;display:flex;flex-wrap:wrap;gap:4px 18px;padding:0;margin:8px 0;font-size:13px}
.mixle-report .keys li{color:var(--ink);margin:0}
.mixle-report .keys i{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:6px}
.mixle-report .keys span{color:var(--dim)}
.mixle-report .chart,.mixle-report .heat{display:grid;grid-template-columns:88px 1fr;gap:8px}
.mixle-report .side{display:flex;flex-direction:column;justify-content:space-between;text-align:right;font-size:12px;
color:var(--dim);overflow:hidden}
.mixle-report .plot{height:130px;border-left:1px solid var(--edge);border-bottom:1px solid var(--edge)}
.mixle-report svg{width:100%;height:100%;display:block}
.mixle-report path{fill:none;stroke-width:1.8;vector-effect:non-scaling-stroke;stroke-linejoin:round}
.mixle-report .below{display:flex;justify-content:space-between;margin-left:96px;font-size:12px;color:var(--dim)}
.mixle-report .heat{grid-template-rows:100%}
.mixle-report .heat img{width:100%;height:100%;min-height:0;display:block;image-rendering:pixelated;
background:var(--card);border:1px solid var(--edge)}
.mixle-report .ramp{display:inline-block;width:120px;height:11px;border-radius:2px;margin:0 8px;vertical-align:-1px;
background:linear-gradient(90deg,var(--fast),var(--card),var(--slow))}
.mixle-report .scroll{overflow-x:auto}
.mixle-report table{border-collapse:collapse;width:100%;font-size:13.5px;font-variant-numeric:tabular-nums;
color:var(--ink);background:var(--back)}
.mixle-report th,.mixle-report td{padding:4px 10px 4px 0;text-align:right;border-bottom:1px solid var(--edge);
white-space:nowrap;background:var(--back);color:var(--ink)}
.mixle-report th{color:var(--dim);font-weight:500}
.mixle-report td:first-child,.mixle-report th:first-child,.mixle-report .text{text-align:left}
.mixle-report tr.slow td{color:var(--slow);font-weight:600}
.mixle-report .bar{width:84px;height:10px;background:var(--card);border-radius:2px;display:inline-block}
.mixle-report .bar i{display:block;height:100%;border-radius:2px}
@media(max-width:520px){.mixle-report{padding:12px}.mixle-report .wide{display:none}
.mixle-report .tiles{grid-template-columns:repeat(auto-fit,minmax(88px,1fr))}.mixle-report .tiles b{font-size:16px}}
"""
