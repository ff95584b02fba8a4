#!/bin/sh
# What /bin/sh does on a host where no agent answers yet. boot_script.cc puts a script together from the parts below, and sends it
# without comments and indentation. It runs in dash, bash, busybox and any POSIX shell.
#
# A part begins with a line "### NAME", or "### NAME: PARTS" where it is a script that needs these, and common and trust. The order of
# the parts is that of this file.
#
# Meant: words that are split, patterns as text, a tilde that the user has written, variables that only some scripts use.
# shellcheck disable=SC2010,SC2034,SC2046,SC2062,SC2086,SC2088,SC2125

### values
# Stands for what the command sets (BootScript::Set), so that shellcheck knows it.
values() {
  nonce='' remote_dir='' job='' slot=''
  agents='' jobs='' keep='' aside_prefix='' slot_prefix='' agent_name='' id_name=''
  kinds='' anew='' places='' aside='' mark='' limit_seconds='' task='' ends=''
}
with_words() { "$@"; }

### common
# No here-documents: bash before 5.1 writes them to a file below /tmp, and goes on without them where that is full.
# All work is done in a subshell (run_agent, end), so that no variable of ours ends up in the
# environment of the agent. Its fd 3 leads to us, its stdout to the shell that runs the agent. What start-up files have left running may print
# there as well: the nonce tells our lines.
say() { printf '%s %s\n' "$nonce" "$*" >&3; }
fail() { say "failed $*"; exit 1; }

# Start-up files may have left no PATH to programs, or a HOME that is none: the system's, and the account's, as passwd(5) has it.
settle() {
  command -v ls >/dev/null || export PATH="${PATH:+$PATH:}/usr/bin:/bin"
  case $HOME in /*) ! [ -d "$HOME" ] || return 0 ;; esac
  account=$(id -un)
  case $account in *[!-A-Za-z0-9._@]*) ;; *) eval "HOME=~$account"; export HOME ;; esac
  unset account
}

begin() {
  quiet=
  values
  PATH=$PATH:/usr/bin:/bin LC_ALL=C  # English error texts
  export PATH LC_ALL
  case $remote_dir in
    '') ;;
    '~') remote_dir=$HOME ;;
    '~/'*) remote_dir=$HOME/${remote_dir#??} ;;
    /*) ;;
    *) remote_dir=$HOME/$remote_dir ;;
  esac
  # A pattern: 64 hexadecimal digits, which name what is kept by its content.
  x=[0-9a-f]; x=$x$x$x$x; x=$x$x$x$x; sha256=$x$x$x$x
  newline='
'
  printf '%s\n' "$nonce" >&3
}

# each_base COMMAND: calls it with every place where tfdist's folder may be, until it succeeds. A folder
# that the user names holds it; it is not it: what else lies there is the user's.
each_base() {
  if [ -n "$remote_dir" ]; then
    "$1" "$remote_dir/tfdist"
    return
  fi
  "$1" "$HOME/.cache/tfdist" && return
  if [ -n "$XDG_CACHE_HOME" ] && [ "$XDG_CACHE_HOME" != "$HOME/.cache" ]; then
    "$1" "$XDG_CACHE_HOME/tfdist" && return
  fi
  "$1" "$HOME/.tfdist"
}

# Where one of our folders was, or is looked for: each_base with the folder itself first.
each_known_base() {
  if [ -n "$remote_dir" ]; then "$1" "$remote_dir" && return; fi
  each_base "$1"
}

# own_processes FILE: that file in /proc of each process of this account. What another account's processes say
# of themselves is not believed.
own_processes() {
  for process in /proc/[0-9]*; do
    ! [ -O "$process" ] || printf '%s ' "$process/$1"
  done
}

### trust
# Nothing is run, listed or removed below a folder of which somebody else may have made a part.
refuse() { [ -n "$quiet" ] || say "refused $1: $2"; return 1; }

is_ours() {
  if ! [ -O "$1" ]; then
    refuse "$1" "belongs to another account"
  elif [ -h "$1" ] && ! [ -O "${1%/*}" ]; then
    refuse "$1" "a symbolic link in somebody else's folder"
  else
    owns_links "$1"
  fi
}

# owns_links PATH: whether each symbolic link on the way there is this account's, or root's. Anybody may make one in a folder such as
# /tmp, and lead into a folder that is safe.
owns_links() {
  asked=$1
  while [ $# -gt 0 ]; do
    [ $# -le 64 ] || { refuse "$asked" "too many symbolic links"; return; }
    way=$1
    shift
    while [ -n "${way#/}" ]; do
      if [ -h "$way" ]; then
        owner=$(ls -ldn "$way" | { read -r mode links owner rest && echo "$owner"; })
        case $owner in
          0 | 65534 | "$(id -u)") ;;
          *) refuse "$asked" "$way is a symbolic link of another account (uid $owner)"; return ;;
        esac
        target=$(readlink "$way")
        case $target in /*) ;; *) target=${way%/*}/$target ;; esac
        set -- "$@" "$target"
      fi
      way=${way%/*}
    done
  done
}

# is_safe PATH FOLDER: whether nobody else can put another folder in the place of PATH or of one that it
# lies in, which has no symbolic links. 65534: root, as a user namespace shows it. A group that is the account's alone
# (user private groups) may write. Where all is well it costs ls(1) alone.
is_safe() {
  lowest=$1
  path=$1
  set -- "$2" "$path"
  while [ -n "$path" ]; do
    path=${path%/*}
    set -- "$@" "${path:-/}"
  done
  folder=$1
  shift
  listed=$(ls -ldn "$@" 2>/dev/null) || { listed=$(ls -ldn "$@" 2>&1 >/dev/null); refuse "$folder" "${listed##*: }"; return; }
  unseen=$#
  last=${listed##*"$newline"}
  set -- ${last%%/*}
  if [ "/${last#*/}" = "$lowest" ] && [ -O "$lowest" ]; then me=$3; else me=$(id -u); fi
  unsafe=
  rest=$listed$newline
  while [ -n "$rest" ]; do
    line=${rest%%"$newline"*}
    rest=${rest#*"$newline"}
    unseen=$((unseen - 1))
    name=/${line#*/}
    set -- ${line%%/*}  # mode, links, owner, group
    case $3 in
      0 | 65534 | "$me") ;;
      *) unsafe="$name belongs to another account (uid $3)"; break ;;
    esac
    case $1 in
      ????????w[tT]*) [ "$name" != "$lowest" ] || { unsafe="everybody may write to $name"; break; } ;;
      ????????w*) unsafe="everybody may write to $name"; break ;;
      ?????w???[!tT]+*) unsafe="an access control list may let others write to $name"; break ;;
      ?????w???[!tT]*) is_own_group "$4" || { unsafe="a group (gid $4) may write to $name"; break; } ;;
    esac
  done
  if [ -z "$unsafe" ] && [ "$unseen" != 0 ]; then unsafe="ls -ldn does not show who may write there"; fi
  [ -z "$unsafe" ] || refuse "$folder" "$unsafe"
}

is_own_group() { [ "$(id -un)" = "$(id -gn)" ] && [ "$1" = "$(id -g)" ]; }

is_open() { [ -r "$1" ] && [ -x "$1" ]; }

# refuse_closed FOLDER: refuses the first folder on the way there that cannot be entered or read, with the reason. Fails where all can,
# or there is nothing.
refuse_closed() {
  closed=$1
  if why=$(ls -d "$closed/." 2>&1 >/dev/null); then
    ! [ -r "$closed" ] || return 1
    why='Permission denied'
  fi
  while [ -n "${closed%/*}" ] && ! above=$(ls -d "${closed%/*}/." 2>&1 >/dev/null); do
    closed=${closed%/*} why=$above
  done
  case $why in *': No such file or directory' | *': Not a directory') return 1 ;; esac
  refuse "$closed" "${why##*: }" || true
}

# open_base FOLDER: makes tfdist's folder there `base`, its path without symbolic links. Where there is none it fails in
# silence.
open_base() {
  if ! [ -d "$1" ]; then refuse_closed "$1"; return 1; fi
  is_ours "$1" || return
  if ! is_open "$1" || { [ -e "$1/$jobs" ] && ! is_open "$1/$jobs"; }; then ! refuse_closed "$1/$jobs" || return 1; fi
  base=$(cd "$1" && pwd -P) || return
  if ! [ -d "$base/$jobs" ] || [ -h "$base/$jobs" ]; then is_safe "$base" "$1" || return; fi
  ! [ -d "$base/$jobs" ] || is_safe "$(cd "$base/$jobs" && pwd -P)" "$1"
}

### folders
# Fails, so that each_base goes on. Of a job's slot, `slot`, only a folder counts that has it, or what jobs of its name keep.
show_folder() {
  if ! open_base "$1"; then
    ! is_gone "$1" || say "gone $base"
    return 1
  fi
  if [ -n "$job" ]; then set -- "$base/$jobs/$job" "$base/$keep"; else set -- "$base/$jobs"/*; fi
  for folder in "$@"; do
    ! [ -e "$folder" ] || is_open "$folder" || refuse_closed "$folder" || true
  done
  if [ -z "$job" ] || [ -e "$base/$jobs/$job/$slot_prefix$slot" ] || [ -e "$base/$keep/${job%-*-*}" ]; then
    say "base $(id_in_sight) $base"
    found=${found:-$base}
  else
    say "lacks $(id_in_sight) $base"
  fi
  return 1
}

# is_gone FOLDER: whether it was removed, and is not just out of sight: an empty folder above it may be the place for a file
# system that is not mounted. Makes its path `base`.
is_gone() {
  above=$1
  until [ -e "$above" ]; do
    ! [ -h "$above" ] && [ -n "${above%/*}" ] || return
    above=${above%/*}
  done
  [ "$above" != "$1" ] && base=$(cd "$above" 2>/dev/null && pwd -P) && [ -n "$(ls -A "$base" 2>/dev/null)" ] || return
  base=$base${1#"$above"}
}

# What was refused has been said.
say_missing() {
  quiet=yes found=
  each_known_base show_folder
  pids=$(pids_of_slot)
  if [ -n "$pids" ]; then say "lost" $pids; else say missing; fi
}

# Keepers, agents and holders of the slot, whose folder was moved, removed or covered: an argument of theirs is its path.
pids_of_slot() {
  for process in $(grep -lsF "/$jobs/$job/$slot_prefix$slot" $(own_processes cmdline)); do
    process=${process%/cmdline}
    case $(ls -l "$process/exe") in *"/$agent_name" | *"/$agent_name (deleted)") ;; *) continue ;; esac
    tr '\0' '\n' <"$process/cmdline" | grep -qx ".*/$jobs/$job/$slot_prefix$slot" || continue
    echo "${process#/proc/}"
  done
} 2>/dev/null

# id_of BASE: which of all folders at that path it is: another one may be in its place where a file system is not mounted. -: not known.
id_of() {
  read -r id <"$1/$id_name" || id=''
  case $id in '' | *[!0-9a-f]*) echo - ;; *) echo "$id" ;; esac
} 2>/dev/null

# The id of `base`; -: not known, or an empty file system lies over its jobs, which may hide some. lost+found: of a new ext4.
id_in_sight() {
  if grep -qF " $base/$jobs " /proc/self/mountinfo && [ -z "$(ls -A "$base/$jobs" | grep -vx lost+found)" ]; then
    echo -
  else
    id_of "$base"
  fi
} 2>/dev/null

### run_agent
# Must be the script's last words: the shell reads no further while the agent runs.
main() {
  settle
  { tfdist_agent=$(prepare) || exit 0; } 3>&1  # what went wrong has been said
  case $tfdist_agent in /proc/*) cd "${tfdist_agent%/*}/cwd" && exec "$tfdist_agent" displaced ;; esac
  exec "$tfdist_agent" "$1"
}

### start_agent
# An agent that is there costs one program, ls(1), before it runs: whether its content is what it should be it says itself.
prepare() {
  begin
  found=
  [ -z "$places" ] || find_folders || return
  if [ -n "$anew$aside" ] || ! is_there; then bring; fi
  base=${agent%/*/*}
  [ -n "$aside" ] || [ -s "$base/$id_name" ] || give_id 2>/dev/null
  say "run $machine $$ $(id_of "$base")"  # main's own process, which becomes the agent's
  printf '%s\n' "$agent"
}

# With noclobber (-C) one of several that do this at once makes the file.
give_id() { (umask 077; set -C; echo "$nonce" >"$base/$id_name"); }

is_there() {
  guess_machine
  of_machine "$machine" && quiet=yes each_place there
}

# Which programs run here the loaders of the C library tell as well, without a process. Where there are both, or another C
# library's, uname(1) tells.
guess_machine() {
  x86=/lib64/ld-linux-x86-64.so.2
  arm=/lib/ld-linux-aarch64.so.1
  if [ -e "$x86" ] && ! [ -e "$arm" ]; then
    machine=x86_64
  elif [ -e "$arm" ] && ! [ -e "$x86" ]; then
    machine=aarch64
  else
    machine=$(uname -m)
  fi
}

# each_place COMMAND: each_base where an agent is to be; beside the folder that was found, where one is asked for.
each_place() {
  if [ -n "$aside" ]; then
    each_aside "$1"
  elif [ -n "$found" ]; then
    "$1" "$found"
  else
    each_base "$1"
  fi
}

# of_machine NAME: what there is to know of the agent for that kind of machine.
of_machine() {
  wanted=$1
  set -- $kinds
  while [ $# -gt 0 ]; do
    hash=$2 size_bytes=$3 gzip_bytes=$4 xz_bytes=$5
    [ "$1" != "$wanted" ] || return 0
    shift 5
  done
  return 1
}

# there FOLDER: makes the agent that is there `agent`.
there() {
  agent=$1/$agents/$hash
  [ -f "$agent" ] && ! [ -h "$agent" ] && [ -O "$agent" ] && [ -x "$agent" ] &&
    is_ours "$1" && is_ours "$1/$agents" && cd -P "$1/$agents" && is_safe "$PWD" "$1" && agent=$PWD/$hash
}

bring() {
  quiet=
  lacks=
  for program in cat chmod head ls mkdir uname wc; do
    command -v "$program" >/dev/null || lacks="$lacks $program"
  done
  [ -z "$lacks" ] || { say "lacks$lacks"; exit 1; }
  system=$(uname -sm)
  machine=${system#Linux }
  if ! of_machine "$machine"; then
    say "system $system"
    exit 1
  fi
  base=
  each_place choose || fail "no folder of this account can hold the agent"
  agent=$base/$agents/$hash
  { [ -z "$anew" ] && intact "$agent"; } || receive
}

# choose FOLDER: makes it `base` if it is ours alone and programs run there.
choose() {
  case $1 in
    /*) ;;
    *) refuse "$1" "not an absolute path"; return ;;
  esac
  owns_links "$1" || return
  new_base='' new_agents=''
  [ -e "$1" ] || new_base=$1
  [ -e "$1/$agents" ] || new_agents=$1/$agents
  [ -n "$new_base" ] || is_ours "$1" || return
  why=$(umask 077; mkdir -p "$1/$agents" 2>&1) || { refuse "$1" "${why##*: }"; return; }
  if is_ours "$1" && is_ours "$1/$agents" && is_safe "$(cd "$1/$agents" && pwd -P)" "$1" && runs_programs "$1"; then
    base=$(cd "$1" && pwd -P)
    return
  fi
  # What was there before stays. Unless something is there by now:
  [ -z "$new_agents" ] || rmdir "$new_agents" 2>/dev/null
  [ -z "$new_base" ] || rmdir "$new_base" 2>/dev/null
  return 1
}

runs_programs() {
  probe=$1/$agents/.probe.$nonce
  # cat(1), not printf: a shell's own word for a full disk is "I/O error".
  if ! why=$({ echo '#!/bin/sh' | cat >"$probe" && chmod 700 "$probe"; } 2>&1); then
    rm -f "$probe"
    refuse "$1" "${why##*: }"
    return
  fi
  "$probe" 2>/dev/null
  status=$?
  rm -f "$probe"
  [ "$status" = 0 ] || refuse "$1" "programs cannot be run there (mounted with noexec?)"
}

# intact FILE: whether it is the wanted agent, whole.
intact() {
  [ -f "$1" ] && ! [ -h "$1" ] && [ -O "$1" ] && [ -x "$1" ] &&
    [ "$(wc -c <"$1")" -eq "$size_bytes" ] && has_hash "$1"
}

has_hash() {
  command -v sha256sum >/dev/null || return 0  # the agent's first message has its hash as well
  sum=$(sha256sum <"$1")
  [ "${sum%% *}" = "$hash" ]
}

# Written aside, and linked: where another slot or job brought it meanwhile, its file stays, which an
# agent may be running by now. Renamed where what is there is damaged, or cannot have links. gzip(1) and xz(1) have checksums of their own.
receive() {
  part=$base/$agents/.$hash.$nonce
  for old in "$base/$agents"/.$sha256.*; do
    [ -f "$old" ] || continue
    find "$base/$agents" -name ".$sha256.*" -type f -mmin +60 -exec rm -f {} + 2>/dev/null  # of uploads that were cut off
    break
  done
  form=plain
  if command -v gzip >/dev/null; then form=gzip; fi
  # That of busybox lacks the filter for machine code.
  case $xz_bytes$(command -v xz >/dev/null && xz --version 2>/dev/null) in
    0*) ;;
    *"XZ Utils"*) form=xz ;;
  esac
  say "upload $form $machine"
  why=$({ umask 077; unpack >"$part"; } 2>&1) || give_up "$why"
  chmod 500 "$part" || give_up "cannot be made executable"
  [ "$(wc -c <"$part")" -eq "$size_bytes" ] || give_up "it arrived damaged"
  if [ -n "$anew" ] || { ! ln "$part" "$agent" 2>/dev/null && ! intact "$agent"; }; then
    why=$(mv -f "$part" "$agent" 2>&1) || give_up "$why"
  else
    rm -f "$part"
  fi
}

unpack() {
  case $form in
    xz) head -c "$xz_bytes" | xz -dc ;;
    gzip) head -c "$gzip_bytes" | gzip -dc ;;
    plain) head -c "$size_bytes" ;;
  esac
}

give_up() {
  free=$(df -Pk "$base" 2>/dev/null | awk 'END { print $4 }')
  rm -f "$part"
  rmdir "$base/$agents" "$base" 2>/dev/null  # unless something is there
  fail "cannot write the agent to $base/$agents: $(echo $1) ($size_bytes bytes needed, ${free:-?} KiB free)"
}

### start: folders run_agent start_agent
main start

### house: folders run_agent start_agent
# find_folders: says which folders of tfdist's are here; makes the first one `found`. Fails where there is none, as there is nothing to
# do then, and an agent is not brought.
find_folders() {
  "$places" show_folder
  if [ -z "$found" ]; then say "nothing"; return 1; fi
  say "found"
}

# each_aside COMMAND: calls it with each place where an agent can be for one request, until it succeeds: none of tfdist's folders has
# room for it, or runs programs.
each_aside() {
  for place in "$XDG_RUNTIME_DIR" /dev/shm /tmp; do
    [ -n "$place" ] && "$1" "$place/$aside_prefix$nonce" && return
  done
  return 1
}

main house

### look
# look BASE: makes the job's own agent there `agent`.
look() {
  open_base "$1" || return
  folder=$base/$jobs/$job/$slot_prefix$slot
  agent=$folder/$agent_name
  if ! [ -x "$agent" ]; then refuse_closed "$folder"; return 1; fi
  [ -O "$agent" ] && [ -O "$folder" ] && [ -O "$base/$jobs/$job" ]
}

### attach: folders run_agent look
prepare() {
  begin
  if each_known_base look; then
    say run
  else
    say_missing
    [ -n "$ends" ] && [ -n "$pids" ] || return
    agent=/proc/${pids%%"$newline"*}/exe  # its folder, which no path leads to, is where that process works
  fi
  printf '%s\n' "$agent"
}

main attach

### find_agent: folders look end
prepare() {
  begin
  if each_known_base look; then say "agent $agent"; else say_missing; fi
}

### run_command: folders look
# The command has a session of its own. It is found again by that, by its descent, and by a variable in its environment, which
# whatever it starts inherits. It runs in the foreground, as a shell makes what runs in the background ignore SIGINT.
prepare() {
  begin
  agent=
  [ -z "$job" ] || each_known_base look || { say_missing; return 1; }
  say run
  printf '%s\n' "$agent"
}

start() {
  read -r tfdist_stat </proc/self/stat
  printf '%s\n' "$tfdist_stat"
  exec >&3 2>&1 3>&- 4<&-
  TFDIST_EXEC=$(values; printf %s "$mark")
  export TFDIST_EXEC
  tfdist_setsid=$(command -v setsid)
  tfdist_task=$(values; printf %s "$task")
  # What comes before it is the shell's, as where it may start no process: "Cannot fork".
  printf '\001%s begin\n' "$(values; printf %s "$nonce")"
  [ -n "$tfdist_agent" ] || with_words exec $tfdist_setsid
  [ -n "$tfdist_task" ] || with_words exec $tfdist_setsid "$tfdist_agent"
  with_words exec $tfdist_setsid "$tfdist_agent" in-task "$tfdist_task"
}

# Obeys us, until we are gone. What another account runs may never end, and so never say how.
watch() {
  while read -r word; do
    case $word in
      end) signal_it TERM ;;
      kill)
        signal_it KILL
        await 20 || report 137 $seen >&3
        ;;
    esac
  done <&4
  end_it
}

# For a host that is cut off: its sshd may not notice for hours.
limit() {
  trap 'kill "$nap"; exit' TERM
  nap "$limit_seconds"
  end_it
}

# Hears from its stdin which process the command is, and how it has ended.
conduct() {
  values
  read -r session stat
  set -- $stat
  since=${21} limit=''
  (watch) &
  watch=$!
  if [ "$limit_seconds" != 0 ]; then
    (limit) &
    limit=$!
  fi
  read -r status
  end_it
  report "$status" $seen >&3
  kill "$watch" $limit
}

# Says of what is there whether it is the command's, or may be: it began since then, beside us (cgroups(7)), and has no parent.
# What sshd starts has none where that is process 1.
report() {
  its='' perhaps='' status=$1
  shift
  while [ $# -gt 0 ]; do
    if is_left "$1"; then
      its="$its, $1 $5"
    elif [ "$3" = 1 ] && [ "$2" -ge "$since" ] && [ "$5" != "($(cat /proc/1/comm))" ] &&
      [ "$(cat "/proc/$1/cgroup")" = "$(cat /proc/self/cgroup)" ]; then
      perhaps="$perhaps, $1 $5"
    fi
    shift 5
  done
  [ "$status" -le 128 ] || [ -r /proc/1/stat ] || perhaps="$perhaps, other accounts' processes"
  printf '\001%s exit %s %s|%s\n' "$nonce" "$status" "${its#, }" "${perhaps#, }"
}

# Makes `left` the ids of what the command has started, as far as it can be seen, and `seen` what there is: ID START PARENT SESSION (NAME).
# grep reads the mark from a pipe, for its arguments are everybody's to see. A name may hold lines that look like other processes'.
find_it() {
  left=' '
  for path in $(printf %s "TFDIST_EXEC=$mark" | grep -lsF -f - /proc/[0-9]*/environ); do
    add "${path%/environ}"
  done
  seen=$(LC_ALL=C grep -s ' ' /dev/null /proc/[0-9]*/stat | LC_ALL=C sed -n 's|^/proc/\([0-9]*\)/stat:\1 (\([-[:alnum:]._]*\).*) [A-WY] \([0-9]*\) [0-9]* \([0-9]*\)\( -*[0-9]*\)\{15\} \([0-9]*\) .*|\1 \6 \3 \4 (\2)|p')
  case $(cat "/proc/$session/stat") in '' | *" $since "*) ;; *) session=gone ;; esac  # another process has its number
  before=
  while [ "$before" != "$left" ]; do
    before=$left
    add_more $seen
  done
  [ "$left" != ' ' ]
}

add_more() {
  while [ $# -gt 0 ]; do
    if [ "$1" = "$session" ] || [ "$4" = "$session" ] || is_left "$3"; then add "$1"; fi
    shift 5
  done
}

add() { is_left "${1#/proc/}" || left="$left${1#/proc/} "; }
is_left() { case $left in *" $1 "*) ;; *) return 1 ;; esac; }
signal_it() { ! find_it || kill -s "$1" $left; }

# SIGTERM, 5 s, SIGKILL. What is there after 2 s more is `left`.
end_it() {
  signal_it TERM
  await 50 && return
  signal_it KILL
  await 20 || true
}

# await TENTHS: until nothing of the command is there.
await() {
  tries=0
  while [ "$left" != ' ' ]; do
    [ "$tries" -lt "$1" ] || return
    tries=$((tries + 1))
    nap 0.1 || nap 1  # not every sleep(1) takes a part of a second
    find_it || true
  done
}

nap() {
  sleep "$1" 3>&- 4<&- &
  nap=$!
  wait "$nap"
}

main() {
  exec 3>&1 4<&0 </dev/null
  settle
  tfdist_agent=$(prepare) || exit 0
  { (start); echo "$?"; } | (conduct 2>/dev/null)
  exit 0
}
main

### end
main() {
  settle
  (prepare && say "done") 3>&1 >/dev/null
  exit 0
}
main
