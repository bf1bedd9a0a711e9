"""The ledger of budgets: events, charges, storage."""
