"""Archived screens: their comparison with the published table, and how to simulate a cell again."""

from statistics import median
from types import SimpleNamespace

from harness.desk import select
from harness.desk.desk import real
from harness.ranks import contract, exchanges
from harness.ranks.exchanges import Cell
from harness.ranks.simulated import SimulatedEnd
from harness.studies.screen.tables import Found, besides

DESK = real()


def results(folder):
    """The plans of a screen's folder of records."""
    return select.select("screen", {"source": f"records/screen/{folder}", "plan": "latest"}, DESK)


def found(folder):
    """Each plan of a folder with what its records say."""
    return [Found(part) for part in results(folder).parts]


def comparison(folder):
    """The comparison of the one plan of a folder with the published table."""
    ((beside,),) = map(besides, found(folder))
    return beside


def shared(beside):
    """Each cell's own and published comparison, with its row."""
    settings = beside.found.settings
    for index, row in enumerate(settings.rows):
        for tokens in settings.tokens:
            yield row, beside.own(index, tokens), beside.other(row, tokens)


def simulate(settings, row, arm, tokens):
    """Cells as a worker measures them: the median over exchanges, then the maximum over Attention ranks."""
    opened = []

    def open_end(what):
        opened.append(SimulatedEnd(what, contract.built("sim")))
        return opened[-1]

    group = SimpleNamespace(open=open_end, trace=lambda row: None, turn=lambda: None)
    cells = [Cell(arm, row, settings.exchange, settings.backend, one) for one in tokens]
    said = [one.facts["samples_us"] for one in exchanges.run(cells, group)]
    attention = [str(rank) for rank, role in opened[0].roles.items() if role == "attention"]
    return [max(median(samples[rank]) for rank in attention) for samples in said]
