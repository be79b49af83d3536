create table route_links (                -- to ports of sandboxes
	id      text    primary key,
	key     blob    not null,             -- signs the link and what it is changed into
	app     text    not null,
	user    text    not null,
	sandbox text    not null references sandboxes (id) on delete cascade,
	created integer not null,
	expires integer not null,
	maker   text    not null default ''   -- the token that it was made with, and ends with
) strict;
create index route_links_owner on route_links (app, user);
create index route_links_sandbox on route_links (sandbox);
