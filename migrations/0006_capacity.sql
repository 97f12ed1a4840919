-- What grows with the history, and was looked through whole.

-- The files of an execution, later versions too. Without it every execution that retention forgets costs a look at all files.
CREATE INDEX files_of_execution ON files (execution_id) WHERE execution_id IS NOT NULL;
