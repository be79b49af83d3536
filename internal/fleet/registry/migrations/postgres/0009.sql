create table webhooks (
	id         text collate "C" primary key,
	app        text collate "C" not null,
	"user"     text collate "C" not null,
	name       text collate "C" not null default '',
	url        text collate "C" not null,
	secret     text collate "C" not null,
	types      text collate "C" not null,            -- JSON list
	all_owners boolean          not null,            -- true: events of all owners
	disabled   boolean          not null default false,
	created    bigint           not null,
	token      text collate "C" not null default '', -- that it was created with
	first      bigint           not null,            -- events with a higher id are sent
	delivered  bigint           not null default 0,  -- time of the last success
	failed     bigint           not null default 0,  -- time of the last failure
	error      text collate "C" not null default ''  -- of the last failure
);
create unique index webhooks_name on webhooks (app, "user", name) where name <> '';
create index webhooks_owner on webhooks (app, "user", created);

create table deliveries (
	id       text collate "C" primary key,
	webhook  text collate "C" not null references webhooks (id) on delete cascade,
	event    bigint           not null,            -- its id
	body     text collate "C" not null,            -- atoll.Event
	dead     bigint           not null default 0,  -- when it was given up; 0: it waits
	attempts bigint           not null default 0,
	next     bigint           not null,            -- time of the next attempt
	status   bigint           not null default 0,  -- of the last attempt
	error    text collate "C" not null default '', -- of the last attempt
	created  bigint           not null
);
create index deliveries_due on deliveries (webhook, next, event) where dead = 0;
create index deliveries_dead on deliveries (webhook, dead) where dead > 0;

create table cursors (                    -- how far what reads events has come
	name  text collate "C" primary key,
	event bigint           not null
);
