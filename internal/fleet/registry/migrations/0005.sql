alter table mounts add column carried integer not null default 0; -- see carry.go; 0: the driver mounts it
alter table mounts add column moved   integer not null default 0; -- when its files last came in or went home
alter table mounts add column failing integer not null default 0; -- since when they can't be brought home; 0: they can
