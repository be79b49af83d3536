-- Objects of archived sandboxes in the archive storage. A row exists as long as its object may.
create table archives (
	key     text    primary key,           -- of the object
	sandbox text    not null,              -- also after its end
	state   text    not null check (state in ('writing', 'kept', 'garbage')),
	secret  text    not null,              -- with which the object is sealed; encrypted as other secrets are
	bytes   integer not null default 0,    -- of the object
	digest  text    not null default '',   -- SHA-256 of the object
	created integer not null
) strict;
create unique index archives_kept on archives (sandbox) where state = 'kept';
create index archives_of on archives (sandbox);
create table archive_prefix (              -- one row, once something was archived
	id     integer primary key check (id = 1),
	prefix text    not null                -- begins the keys of this registry's objects
) strict;
