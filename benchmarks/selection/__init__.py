"""How good the answers are: methods, rivals, budgets, calibration."""
