"""Which tests judge the mutants of which modules: the quick ones that run the module in the process of the tests."""

from typing import NamedTuple


class Group(NamedTuple):
    """Modules of `mixle.utils.parallel` and the test files, below tests/, that must kill their mutants."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


def unit(names: str) -> tuple[str, ...]:
    """Return the files of unit tests by the words that name them."""
    return tuple(f"unit/test_{name}.py" for name in names.split())


def folding(names: str) -> tuple[str, ...]:
    """Return modules of the folding package."""
    return tuple(f"folding.{name}" for name in names.split())


def policies(names: str) -> tuple[str, ...]:
    """Return modules of the policies package."""
    return tuple(f"policies.{name}" for name in names.split())


#: Tests that look at the frames of a call, which mutmut's own lie between, and slow ones beside which others judge.
LEFT_OUT = (
    "unit/test_handle.py::test_a_round_over_unlike_builds_says_so_once",
    "unit/test_configure.py::test_measured_costs_are_near_the_rounds_they_tell_of",
    "unit/test_inputs.py::test_a_warning_stands_at_the_first_line_outside_of_the_library",
    "unit/test_payload.py::test_every_altered_byte_with_a_checksum_that_holds_is_decoded_or_refused",
    "unit/test_rebalance.py::test_workers_of_three_speeds_on_a_real_pool",
)

GROUPS = (
    Group(folding("finite fold"), unit("fold folding_parts fold_groups sdc_policy")),
    Group(folding("dtypes named payload refusals"), unit("payload folding_parts fold_groups")),
    Group(folding("draws shards starts"), unit("shards folding_parts tasks handle_starts")),
    Group(folding("backends controls registry usage"), unit("registry folding_parts policies_keyword doctor")),
    Group(folding("columns parquet inputs encoders"), unit("inputs partition_rows folding_parts optimize_inputs")),
    Group(
        folding("build faults handle mstep observed protocol round row_output transport"),
        unit("handle folding_parts row_output registry report_handles"),
    ),
    Group(folding("tasks"), unit("tasks folding_parts tasks_limits handle row_output sdc_parts")),
    Group(folding("digest digests model_digest packing"), unit("digests sdc_parts row_output checkpoint_file")),
    Group(folding("engine remote travel"), unit("engine_parts fold_groups")),
    Group(policies("canonical compare plainpickle receipts"), unit("compare plain_pickle")),
    Group(
        policies("alarms audit ballots base beside cores driver evidence hearing own quarantine selection"),
        unit("hearing audit_repairs policy_parts sdc_policy sdc_parts sdc_quarantine sdc_selection"),
    ),
    Group(policies("conservation intake invariants"), unit("sdc_invariants sdc_policy sdc_parts")),
    Group(
        policies("assignment elastic exchange losses recovery retry speculate"),
        unit("recoveries policy_parts sdc_parts rebalance"),
    ),
    Group(policies("observe predict rebalance speeds"), unit("rebalance policy_parts report_handles configure")),
)
