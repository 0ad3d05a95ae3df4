"""Arrow is read and written without pandas, which pyarrow would load for a single array of NumPy's, if there is one.

It would take 35 MB, which no budget knows of.
"""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

PROGRAM = """
import sys
import numpy as np
import penstock as ps

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "pandas":
            wanted.append(name)
        return None

wanted = []
sys.meta_path.insert(0, Watch())
D, folder = ps.Dataset, sys.argv[1]
assert len(list({expression})) == 3
assert not wanted
"""

ROWS = 'D.range(3).map(lambda i: {"x": np.ones(i + 1), "t": i > 0, "s": b"a", "d": np.datetime64(1, "D")})'
EXPRESSIONS = {
    "from_arrow": 'D.from_arrow(folder + "/t.arrow", fill_null=True).shuffle(seed=1)',
    "from_parquet": 'D.from_parquet(folder + "/t.parquet", fill_null=True).shuffle(3)',
    "from_csv": 'D.from_csv(folder + "/t.csv")',
    "from_json_lines": 'D.from_json_lines(folder + "/t.jsonl")',
    "to_parquet": f'{ROWS}.to_parquet(folder + "/new.parquet") or range(3)',
    "save": f'{ROWS}.save(folder + "/set", compression="GZIP") or D.load(folder + "/set").shuffle(seed=1)',
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_pandas_is_not_loaded(tmp_path: Path, name: str) -> None:
    table = pa.table({"s": ["a", "b", "c"], "b": [True, None, False], "l": [[1], [2, 3], [4]]})
    with pa.ipc.new_file(tmp_path / "t.arrow", table.schema) as writer:
        writer.write_table(table)
    pq.write_table(table, tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("s,x\na,1\nb,2\nc,3\n")
    (tmp_path / "t.jsonl").write_text('{"s": "a", "l": [1]}\n' * 3)
    program = PROGRAM.replace("{expression}", EXPRESSIONS[name])
    done = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
