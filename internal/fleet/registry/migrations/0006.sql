create table disks (                      -- of working directories, that outlive their sandboxes
	id      text    primary key,          -- as the driver knows it
	app     text    not null,
	user    text    not null,
	name    text    not null,
	driver  text    not null,
	origin  text    not null,             -- the sandbox that it was made for
	created integer not null,             -- when it was kept
	size    integer not null,             -- the limit of its files, in bytes; 0: none
	keeping integer not null default 0,   -- 1: the sandbox that it is to be kept of is being destroyed
	held    text    not null default ''   -- the sandbox that has it
) strict;
create unique index disks_name on disks (app, user, name);
create index disks_held on disks (held) where held <> '';
