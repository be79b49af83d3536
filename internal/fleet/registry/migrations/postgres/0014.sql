-- Objects of archived sandboxes in the archive storage. A row exists as long as its object may.
create table archives (
	key     text collate "C" primary key,         -- of the object
	sandbox text collate "C" not null,            -- also after its end
	state   text collate "C" not null check (state in ('writing', 'kept', 'garbage')),
	secret  text collate "C" not null,            -- with which the object is sealed; encrypted as other secrets are
	bytes   bigint           not null default 0,  -- of the object
	digest  text collate "C" not null default '', -- SHA-256 of the object
	created bigint           not null
);
create unique index archives_kept on archives (sandbox) where state = 'kept';
create index archives_of on archives (sandbox);
create table archive_prefix (                     -- one row, once something was archived
	id     integer          primary key check (id = 1),
	prefix text collate "C" not null              -- begins the keys of this registry's objects
);
