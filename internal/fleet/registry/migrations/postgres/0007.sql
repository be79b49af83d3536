-- Pages of the sandboxes that are not destroyed, of one owner and of all; see sqlCondition.
create index sandboxes_listed on sandboxes (app, "user", created, id) where state <> 'destroyed' and pool = '';
create index sandboxes_listed_all on sandboxes (created, id) where state <> 'destroyed' and pool = '';
create index audit_object on audit (object, id) where object <> '';
