"""The table that compares hosts with their guided forms: one whole run."""

from benchmarks.experiments import like_for_like


def test_a_run_goes_on_and_prints_both_tables(tmp_path, capsys, in_this_process):
    in_this_process(like_for_like)
    given = ["--data", "digits", "--out", str(tmp_path), "--methods", "csq", "--bits", "8", "--epochs", "1"]
    page = tmp_path.with_suffix(".md")
    page.write_text("Before.\n<!-- like-for-like: begin -->\n<!-- like-for-like: end -->\n")
    given += ["--seeds", "2", "--workers", "1", "--page", str(page)]
    like_for_like.main(given)
    printed = capsys.readouterr().out
    assert "| digits | with centers |" in printed
    assert printed in page.read_text()
    assert page.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    files = {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    assert len(files) == 5
    like_for_like.main(given)
    assert {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()} == files
    assert capsys.readouterr().out == printed
    for file in files:  # the cells are in the page's CSV
        file.unlink()
    like_for_like.main(["--out", str(tmp_path), "--page", str(page)])  # nor are data needed then
    assert capsys.readouterr().out == printed
    lines = page.with_suffix(".csv").read_text().splitlines(keepends=True)
    page.with_suffix(".csv").write_text("".join(lines[:-1]))  # which one of them is run anew
    like_for_like.main(given)
    assert {file.name.split("-")[1] for file in tmp_path.iterdir()} == {lines[-1].split(",")[1]}
