// The system's own databases of names (nsswitch.conf(5)), asked through getent(1). A static program must not look into them
// itself: glibc would load modules into it that belong to the machine's glibc, and not to the one inside.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/subprocess.h"

namespace tfdist {

// What `getent DATABASE KEY` says, at most 64 KiB of it; nullopt: getent cannot be run here. `key` must be no option: not
// empty, no dash in front. Blocks until `deadline`.
std::optional<ProgramResult> AskGetent(const std::string& database, const std::string& key,
                                       TimePoint deadline);

// Why there is no answer: "the name is not known", "no answer in time". Of a resolver that did not get one from any DNS server,
// getent(1) says no more than of a name that does not exist.
std::string WhyGetentHasNone(const ProgramResult& result);

// The home folder of a user in the text of a passwd(5), by the number; empty where it has none.
std::string HomeInPasswd(std::string_view text, uid_t uid);
// The same of its name.
std::string NameInPasswd(std::string_view text, uid_t uid);

}  // namespace tfdist
