create table access_keys (                -- of sandboxes, for clients that have no token of the owner
	sandbox text primary key references sandboxes (id) on delete cascade,
	hash    blob not null unique,         -- SHA-256 of the key
	key     text not null                 -- its clients are told it again
) strict;
