"""Which examples the chosen prompts look at next: an incomplete-block design.

Prompts are compared best on common examples, since the example's effect cancels. A prompt's level against a threshold
is learned best on many different ones. So every example is used by about `share` prompts: examples come into use in
the seeded order, one whenever the pulls so far fill another block, and a prompt takes, of those in use that it has
not seen, the one that the prompts in doubt share most; where none is in doubt yet, the one that the fewest have.
"""

import numpy as np
import numpy.typing as npt

from asktell.arrays import Indices

POOL = 256  # examples in use at most, unless a prompt has seen them all; keeps the equations small


def next_examples(
    arms: Indices,
    used_arms: Indices,
    used_examples: Indices,
    order: Indices,
    share: float,
    doubt: npt.NDArray[np.float64] | None = None,
) -> tuple[Indices, Indices]:
    """Arms and examples of new cells: one for every one of the (distinct) `arms` that has an unused one.

    `used_arms`, `used_examples`: the cells known, out, planned or failed. `order`: all examples, in the seeded order.
    `doubt` (K,) is how much each prompt is in question, None if nothing is known.
    """
    n_examples = len(order)
    place = np.empty(n_examples, dtype=np.int64)
    place[order] = np.arange(n_examples)
    places = place[used_examples]
    # What an example is chosen for: the doubt about those who have it, or that few have it.
    worth = np.ones(len(used_arms)) if doubt is None else doubt[used_arms]
    appeal = np.bincount(places, worth, minlength=n_examples)
    appeal = -appeal if doubt is None else appeal
    row_of = np.full(int(max(arms.max(initial=-1), used_arms.max(initial=-1))) + 1, -1, dtype=np.int64)
    row_of[arms] = np.arange(len(arms))
    mine = row_of[used_arms] >= 0
    used: npt.NDArray[np.bool_] = np.zeros((len(arms), n_examples), dtype=bool)
    used[row_of[used_arms[mine]], places[mine]] = True
    seen = used.sum(axis=1)
    taken = np.full(len(arms), -1, dtype=np.int64)
    for row, total in enumerate(range(len(used_arms) + 1, len(used_arms) + 1 + len(arms))):
        if seen[row] == n_examples:
            continue
        pool = min(n_examples, max(int(seen[row]) + 1, min(POOL, int(np.ceil(total / share)))))
        if used[row, :pool].all():  # it has seen examples beyond the pool
            pool = int(used[row].argmin()) + 1
        at = int(np.where(used[row, :pool], -np.inf, appeal[:pool]).argmax())
        taken[row] = at
        appeal[at] += -1.0 if doubt is None else doubt[arms[row]]
    found = taken >= 0
    return arms[found], order[taken[found]]
