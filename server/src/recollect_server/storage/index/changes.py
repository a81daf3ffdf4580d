"""Which conversations changed, as the update log tells it to a part that follows the index."""

import apsw


def end(connection: apsw.Connection) -> int:
    """The cursor of the last row of the update log; 0 of an empty one."""
    return int(connection.execute("SELECT max(cursor) FROM updates").get or 0)


def behind(connection: apsw.Connection, cursor: int) -> tuple[list[str], int]:
    """The conversations that rows behind a cursor name and that are still there, and the cursor of the last row."""
    last = max(cursor, end(connection))
    query = "SELECT DISTINCT c.id FROM updates u JOIN conversations c USING (number) WHERE u.cursor > ? AND u.cursor <= ?"
    return ([row[0] for row in connection.execute(query, (cursor, last))] if last > cursor else []), last
