"""
Read what can be read, leave the rest to people
===============================================

A machine sorts forms by a digit that was written on them. A wrong digit sends a form astray; a
digit that the machine leaves alone costs a clerk a few seconds. So the trees of a forest answer
only where they agree well enough, and of those answers at most 0.5 % shall be wrong. From which
margin on, and how many forms remain for the clerk?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestClassifier

from pacvote import AbstentionDisplay, Votes, certify_abstention, plan
from pacvote.datasets import load_pendigits

X, y = load_pendigits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(y))
train, judged, new = np.split(order, [3000, 7000])
forest = RandomForestClassifier(100, random_state=0).fit(X[train], y[train])


def said(rows):
    """Return what each tree says of each row."""
    codes = [tree.predict(X[rows]).astype(int) for tree in forest.estimators_]
    return forest.classes_[np.stack(codes, axis=1)]


# %%
# Target and margins are fixed before the 4,000 labelled forms are looked at. The strictest margin
# is tested first and must leave enough forms: without any error it takes this many.

target, margins = 0.005, [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0]
print(plan(0, risk=target, delta=0.04))

# %%
# From there on each next margin is tested, until the first that fails.

certificate = certify_abstention(
    Votes.from_predictions(said(judged), y[judged]), target, margins, delta=0.05
)
print(certificate)
for step in certificate.steps:
    print(
        f"margin {step.threshold:.1f}: {step.n_errors:3} errors in {step.n_answered} answers, "
        f"coverage at least {step.coverage:.3f}, {'certified' if step.certified else '-'}"
    )

# %%
# New forms: the certificate says which digit, and which forms go to the clerk.

digits, answered = certificate.answer(said(new))
wrong = (digits != y[new])[answered].mean()
print(f"{answered.mean():.1%} of {len(new)} new forms are answered, {wrong:.2%} of them wrong")
print(f"without abstaining {(digits != y[new]).mean():.2%} would be wrong")

# %%
# The curve is what was measured on the new forms, the point is what was certified before.

display = AbstentionDisplay.from_predictions(said(new), y[new])
display.plot(certificate=certificate)
plt.show()
