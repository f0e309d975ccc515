"""
A missed tumour costs more than a false alarm
=============================================

A missed malignant tumour is as bad as twenty needless biopsies, says the hospital. Which of two
forests shall it use, and what will a patient cost it on average? Errors alone do not say: the one
that errs less often may make the dearer mistakes.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

from pacvote import Votes, certify_cost

data = load_breast_cancer()
X, diagnosis = data.data, data.target_names[data.target]
order = np.random.default_rng(0).permutation(len(X))
train, judged = np.split(order, [len(order) // 3])

# %%
# Costs and candidates are fixed first. Rows are the truth, columns what the vote says.

classes = ["benign", "malignant"]
costs = [[0, 1], [20, 0]]
candidates = {
    "plain": RandomForestClassifier(100, random_state=0),
    "wary": RandomForestClassifier(
        100, class_weight={"benign": 1, "malignant": 20}, min_samples_leaf=5, random_state=0
    ),
}

# %%
# Each candidate is judged on the same new patients with half of delta, so that the better of the
# two limits holds with 95 % confidence, whichever that turns out to be. Of a vote's share, nine
# tenths go to the dear mistake.

limits = {}
for name, forest in candidates.items():
    forest.fit(X[train], diagnosis[train])
    said = [tree.predict(X[judged]).astype(int) for tree in forest.estimators_]
    votes = Votes.from_predictions(forest.classes_[np.stack(said, axis=1)], diagnosis[judged])
    limits[name] = certify_cost(votes, costs, classes, delta=0.025, shares=[0.1, 0.9])
    print(f"{name}: {limits[name].mean_cost:.3f} seen, at most {limits[name].cost:.3f}")
    for one in limits[name].exceedances:
        print(f"   {one.level:g} or more: {one.n_rows} patients, at most {one.limit:.2%} of all")

# %%
# The wary one raises more alarms, misses less, and costs less.

print(limits["wary"])

# %%
# What the limits are made of.

figure, axes = plt.subplots(figsize=(6, 2.2), layout="constrained")
for place, found in enumerate(limits.values()):
    alarm, miss = found.exceedances
    axes.barh(place, alarm.limit, color="C0", label="one or more" if place else None)
    axes.barh(
        place, 19 * miss.limit, left=alarm.limit, color="C3", label="19 more" if place else None
    )
    axes.plot(found.mean_cost, place, "ko", label="seen" if place else None)
axes.set_yticks(range(len(limits)), list(limits))
axes.set_xlabel("cost per patient, at most (95 % confidence)")
axes.legend()
plt.show()
