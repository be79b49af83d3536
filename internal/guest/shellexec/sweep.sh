# What both scripts know: how to find and kill all processes of a command. They set
# __t, the token; __spare, whom to leave alone; __sids and __root, the sessions and
# parents whose processes are the command's; __own, their own session; and __wide
# where the command's shell is to be found too.

# __mine says whether a process has the token among its arguments or variables.
__mine() {
	case $(tr '\0' '\n' <"/proc/$1/environ") in *"ATOLL_CALL=$__t"*) return 0 ;; esac
	[ -n "$__wide" ] || return 1
	case $(tr '\0' '\n' <"/proc/$1/cmdline") in *"$__t"*) return 0 ;; esac
	return 1
}

# __look adds to __kin what is of this command and not in it yet, stopped.
__look() {
	__all= __out=" " __new=
	IFS= read -r __r <"/proc/1/stat" && set -- ${__r##*) } && __first=$4
	for __f in /proc/[0-9]*; do
		{ IFS= read -r __r <"$__f/stat"; } || continue
		set -- ${__r##*) }
		case $1 in Z | X) continue ;; esac
		__p=${__f#/proc/}
		__all="$__all $__p:$2:$4"
		[ "$2" = 0 ] && __out="$__out$__p "
	done
	for __f in $__all; do
		__p=${__f%%:*} __s=${__f##*:}
		__f=${__f#*:} __f=${__f%%:*}
		case " 1 $__spare $__kin " in *" $__p "*) continue ;; esac
		case " $__sids " in *" $__s "*) ;; *)
			case " $__root $__kin " in *" $__f "*) ;; *)
				[ -z "$__wide" ] && case "$__out$__first " in *" $__s "*) continue ;; esac
				__mine "$__p" || continue
				case " $__first $__own " in *" $__s "*) ;; *) __sids="$__sids $__s" ;; esac
				;;
			esac
			;;
		esac
		kill -STOP "$__p" && __kin="$__kin $__p" __new=1
	done
	[ -n "$__new" ]
}

# __sweep kills what is of this command, but __spare.
__sweep() {
	__n=0
	while [ "$__n" -lt 200 ]; do
		__kin=
		while __look; do :; done
		[ -n "$__kin" ] || return 0
		kill -KILL $__kin
		__n=$((__n + 1))
		[ "$__n" -gt 20 ] && sleep 0.05
	done
}

# __who sets __own.
__who() {
	IFS=' ' read -r __r __r __r __r __r __own __r </proc/self/stat
}
