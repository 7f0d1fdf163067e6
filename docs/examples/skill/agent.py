"""A scripted agent, in place of a real one: it solves more tasks in fewer steps if it knows how tests are run here."""

import hashlib
import json
import sys


def luck(*names: str) -> float:
    """A number from 0 to 1 that is always the same for the same names."""
    return (
        int.from_bytes(hashlib.sha256(" ".join(names).encode()).digest()[:4], "big")
        / 2**32
    )


asked = json.load(sys.stdin)
skill, task = asked["candidate"]["skill"], asked["example"]
knows_tests = "make check" in skill
steps = 8 if knows_tests else 12
difficulty = 0.8 * luck(task["id"]) + 0.2 * luck(task["id"], skill)
print("thinking about", task["task"], file=sys.stderr)
print(
    json.dumps(
        {
            "success": difficulty < (0.7 if knows_tests else 0.4),
            # dollars: every step reads the skill again
            "cost": round(steps * (0.006 + 0.000006 * len(skill)), 4),
            # Not really spent
            "seconds": round(steps * (5 + 3 * luck(task["id"], "time")), 1),
            "output": f"Changed {1 + len(task['task']) % 3} files.",
        }
    )
)
