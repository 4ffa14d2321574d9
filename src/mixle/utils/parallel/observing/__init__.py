"""What each rank did in each round: receipts, verdicts, reports."""
