-- Commands of atoll itself, which lists leave out.
alter table commands add column internal integer not null default 0;
