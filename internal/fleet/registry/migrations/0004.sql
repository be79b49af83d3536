alter table sandboxes add column closed integer not null default 0; -- it has more than its owner may ask for
