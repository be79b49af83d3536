alter table tokens add column provider text not null default '';   -- by which its owner has logged in
alter table tokens add column subject  text not null default '';   -- who that is to the provider
alter table tokens add column source   blob not null default x'';  -- SHA-256 of what was shown: a token of the provider, a certificate
create index tokens_source on tokens (source) where source <> x'';

create table logins (                   -- in progress, in the console
	browser  blob    primary key,       -- SHA-256 of the browser's cookie
	provider text    not null,
	state    text    not null,
	nonce    text    not null,
	verifier text    not null,          -- of the code challenge
	identity text    not null default '', -- who has logged in, as JSON; empty: nobody yet
	created  integer not null
) strict;
create index logins_created on logins (created);
