create table identity_keys (              -- sign identity tokens of sandboxes
	id      text    primary key,           -- as in tokens
	private text    not null,              -- PKCS #8 in base64, encrypted
	created integer not null
) strict;
