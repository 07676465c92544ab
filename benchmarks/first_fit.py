"""A first fit in this process, timed: prints one JSON line with the CPU seconds of the import and of the fit."""

import json
import time


def main() -> None:
    start = time.process_time()
    import numpy as np

    import minstein as ms

    imported = time.process_time()
    x = 25 + 10 * np.random.default_rng(1).standard_t(5.0, 1000)
    ms.fit(ms.models.StudentT(20.0, 5.0, 5.0), x)
    print(json.dumps({"import": imported - start, "fit": time.process_time() - imported}))


main()
