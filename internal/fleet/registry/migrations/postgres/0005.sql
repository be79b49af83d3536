create table route_links (                -- to ports of sandboxes
	id      text collate "C" primary key,
	key     bytea            not null,    -- signs the link and what it is changed into
	app     text collate "C" not null,
	"user"  text collate "C" not null,
	sandbox text collate "C" not null references sandboxes (id) on delete cascade,
	created bigint           not null,
	expires bigint           not null,
	maker   text collate "C" not null default '' -- the token that it was made with, and ends with
);
create index route_links_owner on route_links (app, "user");
create index route_links_sandbox on route_links (sandbox);
