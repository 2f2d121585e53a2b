"""Alembic's entry: runs the revisions on the connection (and inside the transaction) that `migrate` hands over."""

from alembic import context

from streamwarden.adapters.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,  # also on SQLite: its transactions are begun explicitly
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
