create table disks (                      -- of working directories, that outlive their sandboxes
	id      text collate "C" primary key,     -- as the driver knows it
	app     text collate "C" not null,
	"user"  text collate "C" not null,
	name    text collate "C" not null,
	driver  text collate "C" not null,
	origin  text collate "C" not null,        -- the sandbox that it was made for
	created bigint           not null,        -- when it was kept
	size    bigint           not null,        -- the limit of its files, in bytes; 0: none
	keeping bigint           not null default 0, -- 1: the sandbox that it is to be kept of is being destroyed
	held    text collate "C" not null default '' -- the sandbox that has it
);
create unique index disks_name on disks (app, "user", name);
create index disks_held on disks (held) where held <> '';
