alter table mounts add column carried bigint not null default 0; -- see carry.go; 0: the driver mounts it
alter table mounts add column moved   bigint not null default 0; -- when its files last came in or went home
alter table mounts add column failing bigint not null default 0; -- since when they can't be brought home; 0: they can
