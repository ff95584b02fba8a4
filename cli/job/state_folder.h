// Where this machine remembers things, and who that makes the user: several people, or one from several machines, may use the
// same account of a host.
#pragma once

#include <filesystem>
#include <string>

namespace tfdist::cli {

// $XDG_STATE_HOME/tfdist. Throws Error(kFiles).
std::filesystem::path StateFolder();

// An id of that folder, random, made once: `home-id` in it. Whoever has the same records has the same id, on each machine that
// shares the home. Throws Error(kFiles).
std::string HomeId();
// What gethostname(2) says; empty: nothing.
std::string ThisMachine();
// "alice@laptop", for people.
std::string UserAndMachine();

}  // namespace tfdist::cli
