-- Third parties' messages whose text is redacted: an older server would keep their words in its index, and take the
-- line that says so for one of another log.
UPDATE recollect.owner SET oldest_server = 19;
