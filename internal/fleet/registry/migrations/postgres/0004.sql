-- A link: good for the terminals of one sandbox, or for one of them, and for nothing else.
alter table tokens add column sandbox  text collate "C" not null default '';
alter table tokens add column terminal text collate "C" not null default '';
