"""Prefect: the flows, their deployments, retries, artifacts and temporary server; nobody else imports it."""
