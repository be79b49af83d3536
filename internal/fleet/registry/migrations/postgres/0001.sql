-- Times and durations are nanoseconds (times since 1970, UTC; 0: none).
-- JSON columns hold the types of package atoll as they marshal.

create table sandboxes (
	id      text collate "C" primary key,
	app     text collate "C" not null,
	"user"  text collate "C" not null,
	name    text collate "C" not null,
	driver  text collate "C" not null,
	state   text collate "C" not null,                -- as atoll.State
	pool    text collate "C" not null default '',     -- of one that is ready and not claimed yet
	config  text collate "C" not null,                -- atoll.Config, with the values of secrets
	env     text collate "C" not null default 'null', -- list of K=V that came with a claim, which the driver does not know
	created bigint           not null,
	started bigint           not null default 0,
	active  bigint           not null,                -- last use, exact to a few seconds
	changed bigint           not null,                -- when it came into its state
	due     bigint           not null default 0,      -- when the fleet has to look at it; 0: never
	turn    bigint           not null default 0,      -- grows with every change but of active and due
	holder  text collate "C" not null default '',     -- the instance that is moving it to another state
	goal    text collate "C" not null default '',     -- what for: create, start, stop, pause, resume, destroy; without a holder: still to be done
	host    text collate "C" not null default '',     -- the instance whose end is its end
	reason  text collate "C" not null default '',     -- of the last failure, one word
	message text collate "C" not null default '',     -- of the last failure, one line
	closed  boolean          not null default false   -- it has more than its owner may ask for
);
create unique index sandboxes_name on sandboxes (app, "user", name) where state <> 'destroyed' and pool = '' and name <> '';
create index sandboxes_due on sandboxes (due) where due > 0;
create index sandboxes_holder on sandboxes (holder) where holder <> '';
create index sandboxes_host on sandboxes (host) where host <> '';
create index sandboxes_owner on sandboxes (app, "user", created);
create index sandboxes_pool on sandboxes (pool, state) where pool <> '';

create table mounts (                     -- which sandbox has which workspace
	sandbox   text collate "C" not null references sandboxes (id) on delete cascade,
	app       text collate "C" not null,
	"user"    text collate "C" not null,
	workspace text collate "C" not null,
	target    text collate "C" not null,
	read_only boolean          not null,
	primary key (sandbox, target)
);
create index mounts_workspace on mounts (app, "user", workspace);

create table workspaces (
	app     text collate "C" not null,
	"user"  text collate "C" not null,
	name    text collate "C" not null,
	labels  text collate "C" not null default '{}',
	created bigint           not null,
	used    bigint           not null,
	keep    bigint           not null default 0,
	primary key (app, "user", name)
);

create table snapshots (
	id      text collate "C" primary key,
	sandbox text collate "C" not null references sandboxes (id) on delete cascade,
	name    text collate "C" not null,
	created bigint           not null,
	size    bigint           not null,
	files   bigint           not null
);
create index snapshots_sandbox on snapshots (sandbox);

create table tokens (
	id      text collate "C" primary key,
	hash    bytea            not null unique,    -- SHA-256 of the secret
	name    text collate "C" not null,
	app     text collate "C" not null,
	"user"  text collate "C" not null,
	scopes  text collate "C" not null,           -- JSON list
	created bigint           not null,
	expires bigint           not null,
	used    bigint           not null default 0,
	revoked bigint           not null default 0,
	maker   text collate "C" not null default '' -- the token that it was made with, and is revoked with
);
create index tokens_owner on tokens (app, "user");
create index tokens_maker on tokens (maker) where maker <> '';

create table quotas (
	app    text collate "C" not null,
	"user" text collate "C" not null,
	quota  text collate "C" not null, -- atoll.Quota
	primary key (app, "user")
);

create table pools (
	name    text collate "C" primary key,
	config  text collate "C" not null, -- atoll.Config
	size    bigint           not null,
	created bigint           not null,
	error   text collate "C" not null default ''
);

create table prepared (                   -- steps that are done once
	app    text collate "C" not null,
	"user" text collate "C" not null,
	place  text collate "C" not null, -- "workspace NAME" or "sandbox ID"
	hash   text collate "C" not null,
	time   bigint           not null,
	primary key (app, "user", place, hash)
);

create table events (
	id      bigint           primary key,
	time    bigint           not null,
	type    text collate "C" not null,
	app     text collate "C" not null,
	"user"  text collate "C" not null,
	object  text collate "C" not null,
	name    text collate "C" not null default '',
	message text collate "C" not null default '',
	data    text collate "C" not null default '{}'
);
create index events_owner on events (app, "user", id);

create table audit (
	id       bigint           primary key generated by default as identity,
	time     bigint           not null,
	app      text collate "C" not null,
	"user"   text collate "C" not null,
	token    text collate "C" not null default '',
	action   text collate "C" not null,
	object   text collate "C" not null default '',
	detail   text collate "C" not null default '',
	outcome  text collate "C" not null,
	duration bigint           not null
);
create index audit_owner on audit (app, "user", id);

create table commands (                   -- history: the newest of each sandbox, secrets redacted
	id        bigint           primary key generated by default as identity,
	sandbox   text collate "C" not null references sandboxes (id) on delete cascade,
	process   text collate "C" not null,
	command   text collate "C" not null,
	stdout    bytea            not null,
	stderr    bytea            not null,
	code      bigint           not null,
	truncated boolean          not null,
	error     text collate "C" not null default '',
	time      bigint           not null,
	duration  bigint           not null
);
create index commands_sandbox on commands (sandbox, id);

create table runs (                       -- when what has a timetable was last done
	name text collate "C" primary key,
	time bigint           not null
);
create table detached (                   -- commands that drivers keep: they go on without any process of ours
	sandbox text collate "C" not null references sandboxes (id) on delete cascade,
	id      text collate "C" not null,           -- as callers know it
	"inner" text collate "C" not null,           -- as the driver knows it
	command text collate "C" not null,           -- secrets redacted
	tty     boolean          not null,
	started bigint           not null,
	ended   bigint           not null default 0, -- 1: history and events have its end
	primary key (sandbox, id)
);
create table spend (                      -- what was asked of models, summed
	sum         text collate "C" not null, -- which sum: the letters of what it is of, or * for each turn
	app         text collate "C" not null,
	"user"      text collate "C" not null,
	assistant   text collate "C" not null,
	chat        text collate "C" not null,
	turn        text collate "C" not null,
	day         bigint           not null, -- since 1970, of the sums that go on for ever; 0: of all days
	requests    bigint           not null,
	refused     bigint           not null,
	input       bigint           not null, -- tokens
	output      bigint           not null,
	cache_read  bigint           not null,
	cache_write bigint           not null,
	cost        double precision not null, -- US dollars
	first       bigint           not null,
	last        bigint           not null,
	primary key (sum, app, "user", assistant, chat, turn, day)
);

-- The IDs of events come from a row instead of a sequence: they are in the order
-- of the commits, and who has read up to one misses none before it.
create table sequences (
	name text   primary key,
	seq  bigint not null
);
insert into sequences values ('events', 0);
create function next_event() returns trigger language plpgsql as $$
begin
	if new.id is null then
		update sequences set seq = seq + 1 where name = 'events' returning seq into new.id;
	else
		update sequences set seq = greatest(seq, new.id) where name = 'events';
	end if;
	return new;
end $$;
create trigger events_id before insert on events for each row execute function next_event();

create table instances (                  -- servers at work, by the clock of the database
	id     text        primary key,
	host   text        not null,          -- where, for people
	since  timestamptz not null,          -- heard of without a gap
	seen   timestamptz not null,          -- last heard of
	fenced boolean     not null default false, -- taken for dead: it writes nothing more
	heir   text        not null default '',    -- who settles what it left
	leads  boolean     not null default false
);

create table writes (                     -- the last write of each, to know whether it was done
	instance text   primary key references instances (id) on delete cascade,
	n        bigint not null
);
