"""What each row of the facts files is worth as a test.

TESTS: inputs stated and the figure is an engine's or allocator's own print. INFERRED: an input was inferred,
often from the figure itself. RESTATES: somebody's arithmetic, a derived value, a bound or an observation;
such a row only repeats a formula. ERROR: the published figure is wrong and must be disagreed with.
"""

TESTS, INFERRED, RESTATES, ERROR = "tests", "inferred input", "restates a formula", "published error"

KV_CACHE = {
    TESTS: "A05 A14 A21 A24 A25 A27 A28 A29 A30 A32 A33 A35 A36 A38 A41 A44 A47 A49 A51 A52 A58 A59 A62 A63 "
    "A65c A65d A65e A74 A76 A78 A79 A80 A81 A86 A94",
    INFERRED: "A02 A07 A08 A09 A10 A22 A45 A55 A60a A60c A60d A61c A61d A61e A64b A64c A68 A69 A71 A83 A84 "
    "A85 A87",
    RESTATES: "A53 A88a2 A88b1 A89 A90 A91 A92a A92b A93c A93d",
    ERROR: "A88c1 A88c2 A88c3",
}

TENSOR_SIZE = {
    TESTS: "B03b B05b B22 B23 B29 B33 B34",
    INFERRED: "B02 B04 B18b B31",
    RESTATES: "B09 B12 B13 B17 B18a B19 B20a B36",
    ERROR: "B06 B26",
}


def class_of(table: dict[str, str]) -> dict[str, str]:
    """Map each row id of a table to its class."""
    return {row: name for name, rows in table.items() for row in rows.split()}
