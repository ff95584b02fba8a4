// The role `start` in a check (wire/host_check.h): it makes no job, and leaves nothing.
#pragma once

#include <filesystem>

#include "agent/check/host_facts.h"
#include "wire/protocol.h"

namespace tfdist::agent {

// Answers `survey`, and what follows it on stdin, until its end or 30 s of silence. Returns the
// role's exit code. `executable`: this program's, `<base>/bin/...`; `in_use`: that file, with a shared lock (flock(2)), by which
// checks that run at once see who is the last one.
int ServeCheck(const protocol::Message& survey, const std::filesystem::path& executable, int in_use,
               const std::filesystem::path& base, const NameLook& why_taken);

}  // namespace tfdist::agent
