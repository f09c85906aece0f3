"""How reports look: on a phone, in dark mode and printed."""

STYLE = """
:root{color-scheme:light dark;--bg:#fff;--card:#f6f7f9;--text:#1d2430;--dim:#5a6472;--line:#d8dde4;--compute:#3b6fb5;
--communicate:#d1495b;--host:#b8960c;--waiting:#f0bcc3;--good:#2e7d4f;--bad:#b3261e;--accent:#3b6fb5;--range:#a9c4e8}
@media (prefers-color-scheme:dark){:root{--bg:#14181f;--card:#1d232c;--text:#e6e9ee;--dim:#a0a9b6;--line:#353d49;
--compute:#6ea3e8;--communicate:#f07f8c;--host:#d9bb4a;--waiting:#6d3c44;--good:#74c799;--bad:#ff8a80;
--accent:#6ea3e8;--range:#3c5c86}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.25rem 1rem 3rem;max-width:68rem;background:var(--bg);color:var(--text);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;overflow-wrap:break-word}
h1{font-size:1.5rem;line-height:1.25;margin:0 0 .25rem}
h2{font-size:1.15rem;margin:2.25rem 0 .35rem;padding-top:.9rem;border-top:1px solid var(--line)}
h3{font-size:.95rem;margin:1rem 0 .2rem}
p{margin:.35rem 0}.note,.dim,footer{color:var(--dim);font-size:.9rem}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(10.5rem,1fr));gap:.6rem;margin:1rem 0}
.fact{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.6rem .8rem}
.fact b{display:block;font-size:1.3rem;line-height:1.3}.fact span{color:var(--dim);font-size:.85rem;display:block}
table{border-collapse:collapse;width:100%;margin:.6rem 0;font-size:.92rem}
th{font-weight:600;color:var(--dim);text-align:left;border-bottom:1px solid var(--line);padding:.3rem .6rem .3rem 0;
vertical-align:bottom}
td{padding:.35rem .6rem .35rem 0;border-bottom:1px solid var(--line);vertical-align:top}
th.n,td.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
.strip{display:block;width:100%;background:var(--card);border-radius:3px;min-width:5rem}
.compute{fill:var(--compute)}.communicate{fill:var(--communicate)}.host{fill:var(--host)}.waiting{fill:var(--waiting)}
.range{fill:var(--range)}.mark{fill:var(--text)}.bound{fill:var(--dim)}.unprofiled{fill-opacity:.55}
.over{fill:var(--bad)}.grid{stroke:var(--line);stroke-width:1}
.key{display:flex;flex-wrap:wrap;gap:.3rem 1rem;font-size:.85rem;color:var(--dim);margin:.4rem 0}
.key i{display:inline-block;width:.8rem;height:.8rem;border-radius:2px;margin-right:.35rem;vertical-align:-.08rem}
td .strip{margin-top:.4rem}
.lanes{display:grid;grid-template-columns:5.6rem 1fr;gap:.15rem .6rem;align-items:center;font-size:.85rem}
.lanes span{color:var(--dim)}
.axis{display:flex;justify-content:space-between;color:var(--dim);font-size:.8rem;font-variant-numeric:tabular-nums}
.good{color:var(--good)}.bad{color:var(--bad)}
.warn{border-left:4px solid var(--host);background:var(--card);
padding:.5rem .8rem;margin:.6rem 0;border-radius:0 6px 6px 0}
code{font-size:.88em}
footer{margin-top:2.5rem;border-top:1px solid var(--line);padding-top:.8rem}
@media screen and (max-width:640px){
body{font-size:15px;padding:1rem .85rem 2rem}.facts{grid-template-columns:1fr 1fr}
body{overflow-wrap:anywhere}
.cards thead{display:none}.cards,.cards tbody,.cards tr,.cards td{display:block;width:100%}
.cards tr{border:1px solid var(--line);border-radius:8px;padding:.35rem .7rem;margin:.5rem 0;background:var(--card)}
.cards td,.cards td.n{border:0;display:grid;grid-template-columns:6.4rem minmax(0,1fr);gap:.5rem;padding:.12rem 0;
text-align:left;white-space:normal}
.cards td:first-child{display:block;font-weight:600}
.cards td+td::before{content:attr(data-label);color:var(--dim);font-size:.85rem}.cards td:empty{display:none}
th,td{padding-right:.35rem}
td .strip{background:var(--bg);align-self:center}}
@media print{:root{--bg:#fff;--card:#f6f7f9;--text:#000;--dim:#444;--line:#bbb;--compute:#3b6fb5;--communicate:#d1495b;
--host:#b8960c;--waiting:#f0bcc3;--good:#2e7d4f;--bad:#b3261e;--range:#a9c4e8}
body{max-width:none;font-size:11pt;padding:0}section,tr,.fact{break-inside:avoid}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}
"""
