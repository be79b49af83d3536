alter table tokens add column provider text collate "C" not null default ''; -- by which its owner has logged in
alter table tokens add column subject  text collate "C" not null default ''; -- who that is to the provider
alter table tokens add column source   bytea            not null default ''; -- SHA-256 of what was shown: a token of the provider, a certificate
create index tokens_source on tokens (source) where source <> '';

create table logins (                            -- in progress, in the console
	browser  bytea            primary key,         -- SHA-256 of the browser's cookie
	provider text collate "C" not null,
	state    text collate "C" not null,
	nonce    text collate "C" not null,
	verifier text collate "C" not null,            -- of the code challenge
	identity text collate "C" not null default '', -- who has logged in, as JSON; empty: nobody yet
	created  bigint           not null
);
create index logins_created on logins (created);
