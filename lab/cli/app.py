"""The command-line application: every command under one name."""

import typer

from lab.cli import measure, runs, trust
from lab.cli.compare import compare_runs
from lab.cli.cost import MODELS_HELP, cost
from lab.cli.exercises import exercises
from lab.cli.exits import EXIT_CODES_HELP
from lab.cli.export import export
from lab.cli.validate import validate

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help=f"What attention costs: measure it, predict it, look it up.\n\n{EXIT_CODES_HELP}",
)

for experiment, words in measure.EXPERIMENT_HELP.items():
    register = app.command(
        experiment, help=words, epilog=measure.epilog(experiment), rich_help_panel="Measure"
    )
    register(measure.command_for(experiment))
app.command("env", rich_help_panel="Measure")(runs.env)
app.command("cost", rich_help_panel="Predict", epilog=MODELS_HELP)(cost)
app.command("validate", rich_help_panel="Predict")(validate)
app.command("exercises", rich_help_panel="Predict")(exercises)
app.command("null", rich_help_panel="Trust")(trust.null)
app.command("cross-check", rich_help_panel="Trust")(trust.cross_check)
app.command("runs", rich_help_panel="Runs")(runs.list_all)
app.command("show", rich_help_panel="Runs")(runs.show)
app.command("compare", rich_help_panel="Runs")(compare_runs)
app.command("export", rich_help_panel="Runs")(export)
