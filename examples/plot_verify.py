"""
A colleague sends me a certificate: is it true?
===============================================

Two files arrive: ``certificate.json`` and the counts that it claims to rest on. `pacvote.verify`
trusts neither. It shares no code with what issues certificates, recomputes everything in exact
and interval arithmetic, and says yes, or why not.
"""

import json
import tempfile
from fractions import Fraction
from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.ensemble import RandomForestClassifier

from pacvote import reweight, verify
from pacvote.datasets import load_pendigits

folder = tempfile.TemporaryDirectory()
paper, evidence = Path(folder.name) / "certificate.json", Path(folder.name) / "counts.npz"

# %%
# The colleague's side.

X, y = load_pendigits(return_X_y=True)
vote = reweight(RandomForestClassifier(20, random_state=0).fit(X, y), X, y)
vote.certificate_.save(paper)
vote.counts_.save(evidence)

# %%
# Your side: two files, one question.

verdict = verify(paper, evidence)
print("certified" if verdict.ok else "refuted", "- checked:", *verdict.checked, sep="\n  ")

# %%
# What no file can prove stays with you. Ask your colleague about each of these.

print(*verdict.unchecked, sep="\n")

# %%
# Now let somebody improve on it, one number at a time. Even a *larger* risk than was issued is
# refused: it is not the number that the evidence gives.


def times(text, factor):
    """Return a fraction, a little larger or smaller."""
    return str(Fraction(text) * factor)


less, more = Fraction(127, 128), Fraction(129, 128)
changes = {
    "risk: one percent less": lambda c: c.update(exact_risk=times(c["exact_risk"], less)),
    "risk: one percent more": lambda c: c.update(exact_risk=times(c["exact_risk"], more)),
    "delta: 1/20 becomes 1/100": lambda c: c.update(delta="1/100"),
    "a voter renamed": lambda c: c["voters"].__setitem__(0, "another"),
    "weights in another order": lambda c: c.update(weight_integers=c["weight_integers"][::-1]),
    "a mean lowered": lambda c: c["claims"][-1].update(p_hat=times(c["claims"][-1]["p_hat"], less)),
    "more rows than there were": lambda c: c["claims"][-1].update(n_samples=10**6),
    "a share of delta spent twice": lambda c: c["claims"][0].update(share="1/20"),
    "an assumption left out": lambda c: c["assumptions"].pop(),
}
lines = []
for what, change in changes.items():
    content = json.loads(paper.read_text())
    change(content)
    verdict = verify(json.dumps(content), evidence)
    lines.append((what, "accepted" if verdict.ok else "refused", *verdict.reasons))

figure, axes = plt.subplots(figsize=(8.4, 2.6), layout="constrained")
axes.axis("off")
table = axes.table(lines, colLabels=("changed", "verdict", "reason"), loc="center", cellLoc="left")
table.auto_set_font_size(value=False)
table.set_fontsize(8)
table.auto_set_column_width(range(3))
plt.show()
folder.cleanup()
