# shellcheck shell=bash
# Where this machine's packages come from, as apt itself reads its sources. Sourced by other scripts.

# source_list TYPE [RELEASE]: prints a source list (TYPE is deb or deb-src) with the machine's own mirrors
# of its distribution, third parties left out: the same suites, or those of another release.
source_list() {
  local type=$1 release=${2:-} uri suite origin component entry suffix keyring
  archive_suites | while IFS='|' read -r uri suite origin component entry; do
    if [[ -n $release ]]; then
      suffix=
      [[ ! $suite =~ -(security|updates)$ ]] || suffix=${BASH_REMATCH[0]}
      suite=$release$suffix
    fi
    keyring=$(keyring_of "${entry%:*}" "$origin")
    echo "$type ${keyring:+[signed-by=$keyring] }$uri $suite $component"
  done | sort -u
}

# Lines "uri|suite|origin|component|file:line"; apt itself reads its sources, whichever their form.
archive_suites() {
  # shellcheck disable=SC2016  # the dollar signs are for apt
  apt-get indextargets --format '$(REPO_URI)|$(RELEASE)|$(ORIGIN)|$(COMPONENT)|$(SOURCESENTRY)' \
    'Created-By: Packages' | grep -E '\|(Debian|Ubuntu)\|' | grep -vE -- '-(backports|proposed)' || true
}

# The keyring that the machine's own entry names, else the distribution's, else none (apt's defaults).
keyring_of() {
  local named
  named=$(sed -nE 's/^[^#]*[Ss]igned-[Bb]y[:=] *([^] ]+).*/\1/p' "$1" 2>/dev/null | head -n 1 || true)
  if [[ -f $named ]]; then
    echo "$named"
  elif [[ -f /usr/share/keyrings/${2,,}-archive-keyring.gpg ]]; then
    echo "/usr/share/keyrings/${2,,}-archive-keyring.gpg"
  fi
}

# The code name of the release that runs here.
this_release() { (. /etc/os-release && echo "${VERSION_CODENAME:-}"); }
