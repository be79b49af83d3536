create table detached (                   -- commands that drivers keep: they go on without any process of ours
	sandbox text    not null references sandboxes (id) on delete cascade,
	id      text    not null,             -- as callers know it
	inner   text    not null,             -- as the driver knows it
	command text    not null,             -- secrets redacted
	tty     integer not null,
	started integer not null,
	ended   integer not null default 0,   -- 1: history and events have its end
	primary key (sandbox, id)
) strict, without rowid;
