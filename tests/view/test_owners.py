"""Who may cancel: the window that started a measurement, and others once it is closed for a while."""

from lab.view.owners import GONE_S, Owners


def test_a_job_is_anybodys_only_after_its_window_was_missed_for_a_while() -> None:
    open_windows, now = {""}, [0.0]
    owners = Owners(lambda session: session in open_windows, lambda: now[0])
    owners.own("job-1")
    assert not owners.gone("job-1")
    assert not owners.gone("job of nobody known")
    open_windows.clear()
    assert not owners.gone("job-1")
    now[0] = GONE_S / 2
    assert not owners.gone("job-1")
    open_windows.add("")  # it had only lost its connection
    assert not owners.gone("job-1")
    open_windows.clear()
    now[0] = GONE_S
    assert not owners.gone("job-1")
    now[0] = 2 * GONE_S
    assert owners.gone("job-1")
