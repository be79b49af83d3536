-- Commands of atoll itself, which lists leave out.
alter table commands add column internal boolean not null default false;
