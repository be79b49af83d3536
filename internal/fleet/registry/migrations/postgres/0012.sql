create table identity_keys (              -- sign identity tokens of sandboxes
	id      text collate "C" primary key,  -- as in tokens
	private text collate "C" not null,     -- PKCS #8 in base64, encrypted
	created bigint           not null
);
