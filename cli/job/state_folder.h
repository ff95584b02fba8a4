// Where this machine remembers things, and who that makes the user: several people, or one from several machines, may use the
// same account of a host.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tfdist::cli {

// $XDG_STATE_HOME/tfdist. Throws Error(kFiles).
std::filesystem::path StateFolder();
// $XDG_CACHE_HOME/tfdist, or that of ~/.cache; empty where there is no home folder.
std::filesystem::path CacheFolder();
// Where tfdist keeps its files on this machine, as this command and as an agent (each_base of link/host.sh); without symbolic links.
// Some of them need not be there. `remote_dir`: as SshOptions has it.
std::vector<std::filesystem::path> OwnFolders(const std::string& remote_dir);

// An id of that folder, random, made once: `home-id` in it. Whoever has the same records has the same id, on each machine that
// shares the home. Throws Error(kFiles).
std::string HomeId();
// What gethostname(2) says; empty: nothing.
std::string ThisMachine();
// "alice@laptop", for people.
std::string UserAndMachine();
// What a host says of a job, without ", started by" this user on this machine.
std::string WithoutOwnName(std::string why);

}  // namespace tfdist::cli
