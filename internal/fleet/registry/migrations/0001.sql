-- Times and durations are nanoseconds (times since 1970, UTC; 0: none).
-- JSON columns hold the types of package atoll as they marshal.

create table sandboxes (
	id      text    primary key,
	app     text    not null,
	user    text    not null,
	name    text    not null,
	driver  text    not null,
	state   text    not null,             -- as atoll.State
	pool    text    not null default '',  -- of one that is ready and not claimed yet
	config  text    not null,             -- atoll.Config, with the values of secrets
	env     text    not null default 'null', -- list of K=V that came with a claim, which the driver does not know
	created integer not null,
	started integer not null default 0,
	active  integer not null,             -- last use, exact to a few seconds
	changed integer not null,             -- when it came into its state
	due     integer not null default 0,   -- when the fleet has to look at it; 0: never
	turn    integer not null default 0,   -- grows with every change but of active and due
	holder  text    not null default '',  -- the instance that is moving it to another state
	goal    text    not null default '',  -- what for: create, start, stop, pause, resume, destroy; without a holder: still to be done
	host    text    not null default '',  -- the instance whose end is its end
	reason  text    not null default '',  -- of the last failure, one word
	message text    not null default ''   -- of the last failure, one line
) strict;
create unique index sandboxes_name on sandboxes (app, user, name) where state <> 'destroyed' and pool = '' and name <> '';
create index sandboxes_due on sandboxes (due) where due > 0;
create index sandboxes_holder on sandboxes (holder) where holder <> '';
create index sandboxes_host on sandboxes (host) where host <> '';
create index sandboxes_owner on sandboxes (app, user, created);
create index sandboxes_pool on sandboxes (pool, state) where pool <> '';

create table mounts (                     -- which sandbox has which workspace
	sandbox   text    not null references sandboxes (id) on delete cascade,
	app       text    not null,
	user      text    not null,
	workspace text    not null,
	target    text    not null,
	read_only integer not null,
	primary key (sandbox, target)
) strict;
create index mounts_workspace on mounts (app, user, workspace);

create table workspaces (
	app     text    not null,
	user    text    not null,
	name    text    not null,
	labels  text    not null default '{}',
	created integer not null,
	used    integer not null,
	keep    integer not null default 0,
	primary key (app, user, name)
) strict;

create table snapshots (
	id      text    primary key,
	sandbox text    not null references sandboxes (id) on delete cascade,
	name    text    not null,
	created integer not null,
	size    integer not null,
	files   integer not null
) strict;
create index snapshots_sandbox on snapshots (sandbox);

create table tokens (
	id      text    primary key,
	hash    blob    not null unique,      -- SHA-256 of the secret
	name    text    not null,
	app     text    not null,
	user    text    not null,
	scopes  text    not null,             -- JSON list
	created integer not null,
	expires integer not null,
	used    integer not null default 0,
	revoked integer not null default 0,
	maker   text    not null default ''   -- the token that it was made with, and is revoked with
) strict;
create index tokens_owner on tokens (app, user);
create index tokens_maker on tokens (maker) where maker <> '';

create table quotas (
	app   text not null,
	user  text not null,
	quota text not null,                  -- atoll.Quota
	primary key (app, user)
) strict;

create table pools (
	name    text    primary key,
	config  text    not null,             -- atoll.Config
	size    integer not null,
	created integer not null,
	error   text    not null default ''
) strict;

create table prepared (                   -- steps that are done once
	app       text    not null,
	user      text    not null,
	place     text    not null,           -- "workspace NAME" or "sandbox ID"
	hash      text    not null,
	time      integer not null,
	primary key (app, user, place, hash)
) strict;

create table events (
	id      integer primary key autoincrement,
	time    integer not null,
	type    text    not null,
	app     text    not null,
	user    text    not null,
	object  text    not null,
	name    text    not null default '',
	message text    not null default '',
	data    text    not null default '{}'
) strict;
create index events_owner on events (app, user, id);

create table audit (
	id       integer primary key autoincrement,
	time     integer not null,
	app      text    not null,
	user     text    not null,
	token    text    not null default '',
	action   text    not null,
	object   text    not null default '',
	detail   text    not null default '',
	outcome  text    not null,
	duration integer not null
) strict;
create index audit_owner on audit (app, user, id);

create table commands (                   -- history: the newest of each sandbox, secrets redacted
	id        integer primary key autoincrement,
	sandbox   text    not null references sandboxes (id) on delete cascade,
	process   text    not null,
	command   text    not null,
	stdout    blob    not null,
	stderr    blob    not null,
	code      integer not null,
	truncated integer not null,
	error     text    not null default '',
	time      integer not null,
	duration  integer not null
) strict;
create index commands_sandbox on commands (sandbox, id);

create table runs (                       -- when what has a timetable was last done
	name text    primary key,
	time integer not null
) strict;
