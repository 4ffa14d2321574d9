"""Documented homes of helpers; `mixle.utils.parallel` holds the handles."""
