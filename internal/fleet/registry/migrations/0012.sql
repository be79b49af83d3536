create table webhooks (
	id         text    primary key,
	app        text    not null,
	user       text    not null,
	name       text    not null default '',
	url        text    not null,
	secret     text    not null,
	types      text    not null,            -- JSON list
	all_owners integer not null,            -- 1: events of all owners
	disabled   integer not null default 0,
	created    integer not null,
	token      text    not null default '', -- that it was created with
	first      integer not null,            -- events with a higher id are sent
	delivered  integer not null default 0,  -- time of the last success
	failed     integer not null default 0,  -- time of the last failure
	error      text    not null default ''  -- of the last failure
) strict;
create unique index webhooks_name on webhooks (app, user, name) where name <> '';
create index webhooks_owner on webhooks (app, user, created);

create table deliveries (
	id       text    primary key,
	webhook  text    not null references webhooks (id) on delete cascade,
	event    integer not null,            -- its id
	body     text    not null,            -- atoll.Event
	dead     integer not null default 0,  -- when it was given up; 0: it waits
	attempts integer not null default 0,
	next     integer not null,            -- time of the next attempt
	status   integer not null default 0,  -- of the last attempt
	error    text    not null default '', -- of the last attempt
	created  integer not null
) strict;
create index deliveries_due on deliveries (webhook, next, event) where dead = 0;
create index deliveries_dead on deliveries (webhook, dead) where dead > 0;

create table cursors (                    -- how far what reads events has come
	name  text    primary key,
	event integer not null
) strict;
