"""What runs that died have left goes with the next run of the folder, and what failed stays to be looked at."""

from harness.core.plan import Workspace
from harness.desk import run


def test_what_dead_runs_left_is_swept_by_the_next_run_and_what_failed_stays(bench):
    left = [bench.out("trees/run-dead/slot0"), bench.out("scratch/batch-dead/0"), bench.out("failures/batch-kept")]
    for folder in left:
        folder.mkdir(parents=True)
        (folder / "file").write_text("")
    bench.out("plans").mkdir()
    half = [bench.out("plans") / ".p1.json.abcd.tmp", bench.out("records") / "p1" / ".x.parquet.abcd.tmp"]
    for file in half:
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_text("half")
    run.plan("screen", ["screen=grid", "tokens=[1]"], bench.desk)
    assert [folder.exists() for folder in left] == [False, False, True]
    assert not any(file.exists() for file in half)


def test_nothing_is_swept_while_another_run_of_the_folder_is_alive(bench):
    folder = bench.out("trees/run-alive")
    folder.mkdir(parents=True)
    with run._alive(Workspace(bench.out(""))):
        folder.mkdir(exist_ok=True)
        run.plan("screen", ["screen=grid", "tokens=[1]"], bench.desk)
        assert folder.exists()
