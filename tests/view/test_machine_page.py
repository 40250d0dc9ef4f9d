"""My machine: what is compared there, and the files that are taken and given."""

import io
import zipfile
from dataclasses import replace

from lab import runs
from lab.cost.score import score
from lab.view import (
    agreement,
    run_files,
)
from tests.view.pages import chart, faults, open_page

CHAPTER = runs.reference_runs()[0]


def test_agreement_scores_the_chapter_without_the_cells_that_gave_constants() -> None:
    pairs = agreement.pairs([CHAPTER], agreement.TIME)
    fitted = [pair for pair in pairs if pair.cell.role == agreement.FITTED]
    assert len(fitted) == 4
    found = agreement.scored(pairs, 0.2)
    assert found == score([pair.cell for pair in pairs], 0.2)
    at = open_page("my_machine")
    heading = at.main.get("subheader")[0].value
    assert f"{found.cells - len(found.misses)} of {found.cells} predicted times" in heading
    assert {(row["x"], row["y"]) for row in chart(at)[1]["points"]} == {
        (pair.cell.predicted, pair.cell.measured) for pair in pairs
    }


def test_recorded_peaks_are_paired_with_their_predictions() -> None:
    pairs = agreement.pairs([CHAPTER], agreement.PEAK)
    assert {pair.point.implementation for pair in pairs} == {"naive", "math", "efficient"}
    assert agreement.scored(pairs, 0.2).mean_absolute_error < 0.2


class File:
    """A file as the browser sends it."""

    def __init__(self, name: str, content: bytes) -> None:
        self.name, self._content = name, content

    def getvalue(self) -> bytes:
        return self._content


def test_uploads_are_read_or_refused_in_a_sentence() -> None:
    good = File("good.json", runs.to_text(CHAPTER).encode())
    found, refusals = run_files.read([good, File("bad.json", b"{"), File("other.json", b"[1]")])
    assert found == [CHAPTER]
    assert len(refusals) == 2
    assert refusals[0].startswith("bad.json is damaged")
    assert refusals[1].startswith("other.json is not a run file")


def test_an_archive_loads_back() -> None:
    with zipfile.ZipFile(io.BytesIO(run_files.archive([CHAPTER]))) as file:
        assert runs.from_text(file.read(f"{CHAPTER.run_id}.json")) == CHAPTER
        assert file.read(f"{CHAPTER.run_id}.csv").count(b"\n") == len(CHAPTER.points) + 1


def test_words_of_a_run_file_are_escaped() -> None:
    assert "<script>" not in run_files.legend([("#000000", "●", "<script>alert(1)</script>")])


def test_runs_kept_here_stand_beside_the_recorded_one() -> None:
    own = replace(
        CHAPTER,
        run_id="mine",
        recorded_on=None,
        points=CHAPTER.points[:9],
        created_utc="2026-01-31T12:00:00Z",
    )
    runs.save(own)
    at = open_page("my_machine")
    assert faults(at) == []
    assert at.multiselect[0].value == ["mine", CHAPTER.run_id]
