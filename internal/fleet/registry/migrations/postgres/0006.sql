create table access_keys (                -- of sandboxes, for clients that have no token of the owner
	sandbox text collate "C" primary key references sandboxes (id) on delete cascade,
	hash    bytea            not null unique, -- SHA-256 of the key
	key     text collate "C" not null     -- its clients are told it again
);
