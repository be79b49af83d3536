-- Whether the file has been rid of what it had before the data key: plain text, or values of a replaced key.
alter table data_keys add column cleaned integer not null default 0;
