-- Secrets are encrypted with data keys, which are encrypted with keys that are not in the registry; see package keyring.
create table data_keys (
	id      text    primary key,
	master  text    not null,              -- id of the key with which this one is encrypted
	wrapped text    not null,
	created integer not null
) strict;
alter table sandboxes add column sealed text not null default ''; -- the secret parts of config and env, encrypted; empty: they are there
alter table pools     add column sealed text not null default '';
