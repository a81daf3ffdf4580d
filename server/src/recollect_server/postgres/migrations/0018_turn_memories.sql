-- Lines of what callers record of turns: an older server would pass over them, and leave the summary of a turn where
-- it redacts the turn.
UPDATE recollect.owner SET oldest_server = 18;
