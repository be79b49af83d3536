create table spend (                      -- what was asked of models, summed
	sum         text    not null,         -- which sum: the letters of what it is of, or * for each turn
	app         text    not null,
	user        text    not null,
	assistant   text    not null,
	chat        text    not null,
	turn        text    not null,
	day         integer not null,         -- since 1970, of the sums that go on for ever; 0: of all days
	requests    integer not null,
	refused     integer not null,
	input       integer not null,         -- tokens
	output      integer not null,
	cache_read  integer not null,
	cache_write integer not null,
	cost        real    not null,         -- US dollars
	first       integer not null,
	last        integer not null,
	primary key (sum, app, user, assistant, chat, turn, day)
) strict, without rowid;
