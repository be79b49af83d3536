-- Whether the file has been rid of what it had before the data key. Not used: only a file of SQLite can be cleaned.
alter table data_keys add column cleaned bigint not null default 0;
